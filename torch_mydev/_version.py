"""The version of this package, and whether the installed mydev is the one that it belongs to.

The two share libraries and modules, so they are of exactly one version. Imports nothing of mydev but its version:
another one may lack anything else.
"""

from __future__ import annotations

__version__ = "0.1.0"


def explain_mydev() -> str:
    """Why this package cannot work with the mydev that is installed; "" if it can."""
    remedy = f"pip install mydev=={__version__}"
    try:
        import mydev
    except ImportError as error:
        return f"torch_mydev {__version__} needs mydev {__version__}, which cannot be imported ({error}): {remedy}"
    found = getattr(mydev, "__version__", "of no version")
    if found == __version__:
        return ""
    return f"torch_mydev {__version__} needs mydev {__version__}, and mydev {found} is installed: {remedy}"
