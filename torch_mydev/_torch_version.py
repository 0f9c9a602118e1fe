"""Everything in Python that depends on the version of torch. Imports nothing from this package, nor torch itself.

torch's C++ interface changes with each minor version, and nothing in a shared library says so: loading a build for
another minor ends in undefined symbols at best. So the versions are compared before any library is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# The minor versions that this source builds against.
SUPPORTED = ((2, 13), (2, 14), (2, 15))
PIP_PIN = "2.13.*"  # the one to install where nobody asks for another


def minor_version(version: str) -> tuple[int, int]:
    """``(2, 13)`` for ``"2.13.0+cpu"``. Raises ValueError for what is not a version."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"'{version}' is not a version of torch")
    return int(match[1]), int(match[2])


def supported_text() -> str:
    """``"2.13"``, ``"2.13 or 2.14"`` or ``"2.13, 2.14 or 2.15"``."""
    return _text(SUPPORTED)


def _text(versions: Iterable[tuple[int, int]]) -> str:
    *others, last = (f"{major}.{minor}" for major, minor in versions)
    return " or ".join([", ".join(others), last] if others else [last])


def pin_for(version: str) -> str:
    """``"2.14.*"`` for ``"2.14.1"``: what a build made with that torch runs with."""
    major, minor = minor_version(version)
    return f"{major}.{minor}.*"


def explain_unsupported(version: str) -> str:
    """Why this source cannot work with that torch; "" if it can."""
    if minor_version(version) in SUPPORTED:
        return ""
    return (
        f"torch {version} is installed, but this torch_mydev works with torch {supported_text()}; "
        f"install that, or the torch_mydev that was made for torch {version}"
    )


def explain_mismatch(built_with: Sequence[tuple[int, int]], running: str) -> str:
    """Why a package made with those minor versions of torch cannot run with another; "" if it can."""
    if minor_version(running) in built_with:
        return explain_unsupported(running)
    return (
        f"this torch_mydev was built with torch {_text(built_with)}, but torch {running} is running; "
        f"rebuild it (pip install --no-build-isolation .) or install torch {_text(built_with)}"
    )


def installed_version() -> str:
    """The version of torch that is installed. Raises importlib.metadata.PackageNotFoundError when there is none."""
    from importlib.metadata import version

    return version("torch")


def explain_build_problem() -> str:
    """Why a build cannot begin: torch is missing, or is of a version that will not do. "" when it can."""
    from importlib.metadata import PackageNotFoundError

    try:
        version = installed_version()
    except PackageNotFoundError:
        return f"torch is not installed; torch_mydev builds against it: pip install 'torch=={PIP_PIN}' comes first"
    return explain_unsupported(version)


def main() -> None:
    """For CMake: prints torch's directory and version; ends the program with an explanation when it will not do."""
    import importlib.util
    import os
    import sys

    problem = explain_build_problem()
    spec = importlib.util.find_spec("torch")
    if problem or spec is None or spec.origin is None:
        sys.exit(problem or "torch is installed, but its files are not there; reinstall it")
    print(os.path.dirname(spec.origin))
    print(installed_version())
