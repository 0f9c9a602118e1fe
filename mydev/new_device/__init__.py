"""``mydev new-device``: a vendor's package to start with. It builds, and its tests pass, as it is written.

The package is the folder ``template``, of a device called acme: real files, which this project's tests build too. To
write them is to put the device's name in the place of acme, and to leave out the parts that are for a driver with a
compiler, or for one without (``mydev.template_parts``).
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

from mydev.drivers import TAKEN, DriverChoice
from mydev.template_parts import with_parts

TEMPLATE = Path(__file__).parent / "template"
LANGUAGES = ("c++", "c")
COMPILERS = ("opencl-c", "cuda-c", "c++")
#: Written with a dot in front: with one they would have a meaning where they lie.
_HIDDEN = ("gitignore", "github/")
#: Files of a driver with a compiler.
_COMPILER = ("csrc/compiler.c", "csrc/card_compiler.cpp", "csrc/card_place.h")
#: C that is C++ as well; the other sources are C++ in any case.
_COMMON = ("csrc/driver.c", "csrc/conformance.c", "csrc/kernels.c", "csrc/custom_calls.c", "csrc/compiler.c")


def write(name: str, directory: Path, *, language: str = "c++", compiler: str = "") -> list[Path]:
    """Writes the package of a device called ``name`` into the directory, which it makes; returns its files.

    ``compiler``: the language that the device's compiler takes, or "" for a driver without one. Raises ValueError for a
    name that cannot be a device's, FileExistsError where there is something already.
    """
    check_name(name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(f"{directory} is there and not empty; name a new folder with --output")
    sources = {str(path.relative_to(TEMPLATE)): path for path in sorted(TEMPLATE.rglob("*")) if _is_written(path)}
    if compiler:
        sources["csrc/card_language.h"] = TEMPLATE / "languages" / f"{compiler}.h"
    else:
        sources = {file: path for file, path in sources.items() if file not in _COMPILER}
    written = []
    for file, path in sources.items():
        text = _named(with_parts(path.read_text(encoding="utf-8"), ["compiler"] if compiler else []), name)
        if language == "c++":
            text = re.sub(r"\b(driver|conformance|kernels|custom_calls|compiler)\.c\b", r"\1.cpp", text)
            file = re.sub(r"\.c$", ".cpp", file) if file in _COMMON else file
        target = directory / _named(f".{file}" if file.startswith(_HIDDEN) else file, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.append(target)
    return written


def check_name(name: str) -> None:
    """Raises ValueError, in one line, for a name that PyTorch, JAX or a language would not take for a device."""
    if not re.fullmatch(r"[a-z][a-z_]*", name) or keyword.iskeyword(name):
        raise ValueError(f"'{name}' is no name for a device; take letters a to z and _, and no word of Python's")
    if name in (*TAKEN, DriverChoice().device_name, "conformance", "card"):
        raise ValueError(f"'{name}' is taken: PyTorch, JAX or this project has it; call the device otherwise")
    if name in _names_of_torch():
        raise ValueError(f"'{name}' is taken: torch or torch.Tensor has an attribute of that name; call it otherwise")


def _names_of_torch() -> set[str]:
    """The modules of torch, and its functions and those of its tensors, as its stubs say: torch is not imported. None
    where it is missing.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return set()
    folder = Path(spec.origin).parent
    stubs = (folder / "_C" / file for file in ("_VariableFunctions.pyi", "__init__.pyi"))
    functions = [re.findall(r"def (\w+)\(", stub.read_text("utf-8")) for stub in stubs if stub.is_file()]
    return {path.stem for path in folder.iterdir()}.union(*functions)


def _is_written(path: Path) -> bool:
    return path.is_file() and path.parent.name not in ("languages", "__pycache__") and path.suffix != ".so"


def _named(text: str, name: str) -> str:
    return text.replace("acme", name).replace("ACME", name.upper())
