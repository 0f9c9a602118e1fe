"""The native parts: what was built with torch, in a directory for each minor version of it.

``lib/torch-2.13`` and its like hold the libraries that are bound to one minor version, and the extension module. A
package may have several of them (tools/join_wheels.py). The libraries that know nothing of torch are in
mydev's ``lib``. Imports neither torch nor a library.
"""

from __future__ import annotations

import json
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from torch_mydev._torch_version import explain_mismatch, minor_version

_PACKAGE = __name__.rpartition(".")[0]
LIBRARIES = Path(__file__).parent / "lib"


class NativePart(NamedTuple):  # a dataclass cannot be made while another thread imports `typing`
    """The files that were built with one minor version of torch."""

    directory: Path
    build_info: dict[str, str]  # cmake/torch_build_info.json.in

    def extension_files(self) -> list[Path]:
        """The files of the extension module that this Python can load."""
        candidates = [self.directory / f"_C{suffix}" for suffix in EXTENSION_SUFFIXES]
        return [path for path in candidates if path.exists()]


def built_for() -> dict[tuple[int, int], Path]:
    """The directories that are there, by the minor version of torch, lowest first."""
    found = {}
    for path in LIBRARIES.glob("torch-*"):
        if match := re.fullmatch(r"torch-(\d+)\.(\d+)", path.name):
            found[int(match[1]), int(match[2])] = path
    return dict(sorted(found.items()))


def native_part(torch_version: str) -> NativePart:
    """The part for that version of torch. Raises ImportError that says what to do where there is none."""
    parts = built_for()
    if not parts:
        missing = LIBRARIES / f"torch-{'.'.join(map(str, minor_version(torch_version)))}"
        raise ImportError(
            f"the native part of {_PACKAGE} is missing ({missing} is not there); build it (make build) or reinstall it",
            name=_PACKAGE,
        )
    if problem := explain_mismatch(list(parts), torch_version):
        raise ImportError(problem, name=_PACKAGE)
    directory = parts[minor_version(torch_version)]
    path = directory / "build_info.json"
    try:
        return NativePart(directory, json.loads(path.read_text()))
    except FileNotFoundError:
        raise ImportError(f"{path} is not there; rebuild or reinstall {_PACKAGE}", name=_PACKAGE) from None
    except ValueError:
        raise ImportError(f"{path} is damaged; rebuild or reinstall {_PACKAGE}", name=_PACKAGE) from None
