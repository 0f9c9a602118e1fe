"""The edges between the files of a source tree, by includes, and whether they keep to an order of its folders.

A folder is one directly below a root, or, written ".", the files that lie in the root itself. An order is data: a list
of folders from the lowest to the highest, each of which may use those before it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

CPP_SUFFIXES = {".h", ".cpp", ".c"}
#: From a file to those that it includes or imports; paths are relative to the root.
Edges = dict[Path, set[Path]]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def includes(root: Path, search: Sequence[Path] = ()) -> Edges:
    """The files below ``root`` that each C or C++ file there includes, found from it, from ``root``, or ``search``."""

    def found(path: Path) -> set[Path]:
        places = [path.parent, root, *search]
        candidates = (place / name for name in _INCLUDE.findall(path.read_text(encoding="utf-8")) for place in places)
        return {file.resolve().relative_to(root.resolve()) for file in candidates if file.is_file()}

    paths = [path for path in sorted(root.rglob("*")) if path.suffix in CPP_SUFFIXES]
    return {path.relative_to(root): found(path) for path in paths}


def imports(package: Path) -> Edges:
    """The modules of ``package`` that each of its modules imports: at once, in a function, or for its types alone."""

    def module(*parts: str) -> Path | None:
        path = package.parent.joinpath(*parts)
        files = (
            path.with_suffix(".py") if parts[-1:] != (package.name,) else path / "__init__.py",
            path / "__init__.py",
        )
        inside = (file for file in files if file.is_file() and file.is_relative_to(package))
        return next((file.relative_to(package) for file in inside), None)

    def targets(node: ast.AST, path: Path) -> Iterable[Path | None]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield module(*alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            here = path.relative_to(package.parent).parts
            parts = [*(here[: -node.level] if node.level else []), *(node.module or "").split(".")]
            parts = [part for part in parts if part]
            for alias in node.names:  # a module of that name, else what the package itself holds
                submodule = module(*parts, alias.name)
                extension = any(package.parent.joinpath(*parts).glob(f"{alias.name}.*"))
                yield submodule if submodule or extension else module(*parts)

    edges: Edges = {}
    for path in sorted(package.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found = {target for node in nodes for target in targets(node, path) if target is not None}
        edges[path.relative_to(package)] = found - {path.relative_to(package)}
    return edges


def folder_of(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else "."


def below(order: Sequence[str]) -> dict[str, set[str]]:
    """Returns the folders that each folder of a list, from the lowest to the highest, may use."""
    return {folder: set(order[:position]) for position, folder in enumerate(order)}


def against_order(edges: Edges, may_use: Mapping[str, set[str]], places: Mapping[Path, str] | None = None) -> list[str]:
    """Returns what breaks the order: uses of a folder that ``may_use`` does not grant, and folders that it lacks.

    ``places`` names the folders of files that count for another than their own.
    """
    given = places or {}

    def folder(path: Path) -> str:
        return given.get(path, folder_of(path))

    unknown = {folder(path) for path in edges} - set(may_use)
    wrong = [f"{name}/ has no place in the order" for name in sorted(unknown)]
    for path, used in sorted(edges.items()):
        granted = may_use.get(folder(path), set()) | {folder(path)}
        wrong += [f"{path} uses {target}" for target in sorted(used) if folder(target) not in granted]
    return wrong


def circle(edges: Edges) -> list[str]:
    """A circle of files, if there is one: each uses the next, the last the first."""
    done: set[Path] = set()

    def visit(path: Path, trail: list[Path]) -> list[Path]:
        if path in trail:
            return trail[trail.index(path) :]
        if path in done:
            return []
        for target in sorted(edges.get(path, ())):
            if found := visit(target, [*trail, path]):
                return found
        done.add(path)
        return []

    for path in sorted(edges):
        if found := visit(path, []):
            return [str(file) for file in found]
    return []
