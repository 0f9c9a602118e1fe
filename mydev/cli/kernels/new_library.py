"""``kernels new``: projects to start a library of kernels with, one for each kind; files of ``templates/``.

A template is a kernel, a test in Python, and what all share: CMakeLists.txt and library.c. The kernels of XLA's legacy
custom calls are parts of one file (``mydev.template_parts``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mydev.drivers import chosen as chosen_driver
from mydev.template_parts import with_parts

_DIRECTORY = Path(__file__).parents[1] / "templates"
# XLA's headers are in jaxlib's wheel.
_FIND_XLA = """
if(NOT XLA_INCLUDE_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import jaxlib; print(jaxlib.__path__[0] + '/include')"
                  OUTPUT_VARIABLE XLA_INCLUDE_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
target_include_directories(@NAME@ SYSTEM PRIVATE ${XLA_INCLUDE_DIR})
"""


@dataclass(frozen=True)
class _Template:
    source: str  #: of the kernel
    test: str
    api_version: int = 0  #: of XLA's legacy custom calls
    extra: str = ""  #: for CMakeLists.txt


_TEMPLATES = {
    "frame": _Template("frame.c", "frame.py"),
    "typed-ffi": _Template("typed_ffi.cpp", "typed_ffi.py", extra=_FIND_XLA),
    "original-host": _Template("legacy.c", "operands.py", 1),
    "original-device": _Template("legacy.c", "opaque.py", 1),
    "status-host": _Template("legacy.c", "operands.py", 2),
    "status-device": _Template("legacy.c", "opaque.py", 2),
    "unified-host": _Template("legacy.c", "opaque.py", 3),
    "unified-device": _Template("legacy.c", "opaque.py", 3),
}
TEMPLATES = tuple(_TEMPLATES)


def write(template: str, directory: Path, name: str) -> list[Path]:
    """Makes the directory and writes the project into it; returns its files.

    Raises ValueError for a name that is no C identifier, FileExistsError where there is something already.
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name) is None:
        raise ValueError(f"'{name}' is no name for a library: give one of letters, digits and _ with --name")
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty; name a new directory")
    chosen = _TEMPLATES[template]
    source = f"kernel{Path(chosen.source).suffix}"
    values = {
        "EXTRA": chosen.extra,  # first: it has a NAME
        "NAME": name,
        "SOURCE": source,
        "API_VERSION": str(chosen.api_version),
        "KIND": template.replace("-", "_").upper(),
        "DEVICE": chosen_driver().device_name,
    }
    names = [template, *template.split("-"), Path(chosen.test).stem]
    files = {
        "CMakeLists.txt": "CMakeLists.txt",
        "library.c": "library.c",
        source: chosen.source,
        "test_kernel.py": chosen.test,
    }
    directory.mkdir(parents=True, exist_ok=True)
    for file, origin in files.items():
        text = with_parts((_DIRECTORY / f"{origin}.in").read_text(encoding="utf-8"), names)
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        (directory / file).write_text(text, encoding="utf-8")
    return [directory / file for file in files]
