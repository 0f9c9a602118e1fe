"""The paths of this checkout and of its builds, and the environment in which a child interpreter finds both."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
#: CMake's build with tests on; libraries of kernels and of examples, and the drivers that tests load.
BUILD = Path(os.environ.get("MYDEV_BUILD_DIR", ROOT / "build" / "release")).resolve()
KERNELS = BUILD / "kernels"
DRIVERS = Path(os.environ.get("MYDEV_TEST_DRIVERS", BUILD / "drivers"))


def environment(**changes: str) -> dict[str, str]:
    """This process's environment with the checkout and ``support`` on Python's path, and with ``changes``."""
    path = os.pathsep.join(filter(None, [str(ROOT), str(TESTS), os.environ.get("PYTHONPATH", "")]))
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # tools wrap by it
    return {**inherited, "PYTHONPATH": path, **changes}


def linked_library(package: Path, name: str) -> Path:
    """The file of a library of that package that others are linked with; a version is the end of its name."""
    (path,) = (package / "lib").glob(f"lib{name}.so.*")
    return path
