"""The libraries of this package: where they are, how they were built, and whether they are of this version."""

from __future__ import annotations

import json
from pathlib import Path

from mydev.version import __version__

LIBRARIES = Path(__file__).parent / "lib"
_REBUILD = "build it (make build) or reinstall it"


def build_info() -> dict[str, str]:
    """The facts of cmake/build_info.json.in about the build. Raises RuntimeError, which says what to do, where the
    libraries are missing or of another version."""
    path = LIBRARIES / "build_info.json"
    try:
        info: dict[str, str] = json.loads(path.read_text())
        version = info["version"]
    except FileNotFoundError:
        raise RuntimeError(f"the libraries of mydev are missing ({path} is not there); {_REBUILD}") from None
    except (KeyError, TypeError, ValueError):
        raise RuntimeError(f"{path} is damaged; {_REBUILD}") from None
    if version != __version__:
        raise RuntimeError(
            f"mydev is of version {__version__}, and its libraries in {LIBRARIES} of {version}; {_REBUILD}"
        )
    return info
