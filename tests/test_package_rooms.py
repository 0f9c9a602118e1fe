"""The rooms of the Python package: which may import which, and that no modules import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "torch_mydev"

# From the bottom up: what is named together stands on one step, and imports only steps below it, or its own room.
# "torch_mydev" is the package's own __init__.
STEPS = (
    ("_C", "_device_name", "_torch_version", "headers"),
    ("device",),
    ("observe",),
    ("custom_call",),
    ("compile",),
    ("distributed",),
    ("patches",),
    ("_autoload",),
    ("torch_mydev",),
    ("cli",),
    ("__main__", "accelerate"),
)
STEP_OF = {room: step for step, rooms in enumerate(STEPS) for room in rooms}
# Modules that stand at the top for now, and the rooms that they belong to.
OUTSIDE = {
    **dict.fromkeys(["custom_operator", "ffi"], "custom_call"),
    **dict.fromkeys(["_kernel_probe", "elf_file", "kernel_call", "kernel_check", "kernel_operands"], "cli"),
    **dict.fromkeys(["kernel_search", "kernel_templates", "kernels_cli"], "cli"),
}


def modules_of(package: Path) -> dict[str, Path]:
    """The package's modules by their full names."""
    names = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def room_of(module: str) -> str:
    first, _, rest = module.partition(".")
    top = rest.partition(".")[0] or first
    return OUTSIDE.get(top, top)


def imports_of(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The package's modules that a file imports, wherever in it; not the packages around them."""
    package = next(iter(modules)).partition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            named = [name if name in modules or name.endswith("._C") else node.module for name in inner]
        else:
            continue
        yield from (name for name in named if name.partition(".")[0] == package)


def violations(package: Path) -> list[str]:
    """Imports of a module on a higher step, or of another room on the same one."""
    modules = modules_of(package)
    return sorted(
        f"{module} imports {imported}"
        for module, path in modules.items()
        for imported in imports_of(path, modules)
        if room_of(imported) != room_of(module) and STEP_OF[room_of(imported)] >= STEP_OF[room_of(module)]
    )


def circle(package: Path) -> list[str]:
    """Modules that import each other in a circle, the first one named again at the end; [] if none do."""
    modules = modules_of(package)
    graph = {module: set(imports_of(path, modules)) - {module} for module, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_every_module_has_its_room() -> None:
    assert {room_of(module) for module in modules_of(PACKAGE)} <= set(STEP_OF)


def test_imports_point_down() -> None:
    assert violations(PACKAGE) == []


def test_no_circles() -> None:
    assert circle(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "code", "violation"),
    [
        ("device/stream.py", "from torch_mydev.compile import backend", "device.stream imports torch_mydev.compile"),
        ("device/stream.py", "def f():\n    import torch_mydev.compile", "device.stream imports torch_mydev.compile"),
        ("compile/backend.py", "from torch_mydev import patches", "compile.backend imports torch_mydev.patches"),
        ("headers.py", "from torch_mydev import _device_name", "headers imports torch_mydev._device_name"),
        ("observe/trace.py", "from torch_mydev import __version__", "observe.trace imports torch_mydev"),
    ],
)
def test_an_import_against_the_order_is_found(tmp_path: Path, file: str, code: str, violation: str) -> None:
    package = tmp_path / "torch_mydev"
    for name in ("__init__.py", "_device_name.py", "patches.py", "compile/__init__.py", file):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    assert violations(package) == []
    (package / file).write_text(code)
    assert violations(package) == [f"torch_mydev.{violation}"]


def test_a_circle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "torch_mydev"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from torch_mydev import other")
    (package / "other.py").write_text("def f():\n    from torch_mydev.one import x")
    assert set(circle(package)) == {"torch_mydev.one", "torch_mydev.other"}
