"""Writes docs/accelerator-guide.md: where each entry of PyTorch's guide for accelerators is done and tested.

The tables are in guide_tables.py. tests/project/test_guide.py compares those of classes with the installed torch, and
all of them with the tree. Run without arguments to write the page, with --check to compare only (exit status 1 when it
is out of date).
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from guide_tables import INTERFACES, LEFT, SECTIONS, Interface, Section
from written_pages import ROOT, parser, write_or_check

PAGE = ROOT / "docs" / "accelerator-guide.md"
GUIDE = "https://docs.pytorch.org/docs/main/accelerator"

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_VIRTUAL = re.compile(r"\bvirtual\s+[^;{=()]*?(~?\w+)\(")


# --- the installed torch, and the tree --------------------------------------------------------------------------------


def asked(interface: Interface) -> set[str]:
    """The names of what the installed torch lets a backend give."""
    return set().union(*(_members(_source_of_torch(place), name) for place, name in interface.headers.items()))


def given(interface: Interface) -> set[str]:
    """The names of what this project gives."""
    text = (ROOT / interface.file).read_text(encoding="utf-8")
    if interface.file.endswith(".py"):
        return _python_members(text, interface.derived)
    return set(re.findall(r"\b(\w+)\([^;{]*?\)[^;{]*\boverride\b", _body(text, interface.derived)))


def _source_of_torch(place: str) -> Path:
    import torch

    package = Path(torch.__path__[0])
    return package / "include" / place if place.endswith(".h") else package.parent / f"{place.replace('.', '/')}.py"


def _members(path: Path, name: str) -> set[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return _python_members(text, name)
    return {found for found in _VIRTUAL.findall(_body(text, name)) if not found.startswith("~")}


def _body(text: str, name: str) -> str:
    """A class of C++, to the brace in the first column that ends it, without comments."""
    found = re.search(rf"^(?:class|struct)\s+(?:\w+\s+)?{name}\b[^;]*?\{{.*?^\}};", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no class {name}"
    return _COMMENT.sub("", found[0])


def _python_members(text: str, name: str) -> set[str]:
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef) and node.name == name]
    assert classes, f"there is no class {name}"
    return _names(classes[0])


def _names(node: ast.ClassDef) -> set[str]:
    """The names of a class: functions, what is assigned, classes with their names. None has two underscores."""
    found: set[str] = set()
    for item in node.body:
        if isinstance(item, ast.ClassDef):
            found |= {item.name, *(f"{item.name}.{inner}" for inner in _names(item))}
        elif isinstance(item, ast.FunctionDef):
            found.add(item.name)
        elif isinstance(item, ast.Assign):
            found |= {target.id for target in item.targets if isinstance(target, ast.Name)}
    return {name for name in found if "__" not in name}


# --- page -------------------------------------------------------------------------------------------------------------


def _tests(text: str) -> str:
    return ", ".join(f"`tests/{test}`" for test in text.split()) or "none"


def _interface(interface: Interface) -> list[str]:
    lines = ["", f"`{interface.name}`, in `{interface.file}`:", "", "| entry | tested by |", "| --- | --- |"]
    reasons: dict[str, list[str]] = {}
    for name, text in interface.entries.items():
        _, left, reason = text.partition(LEFT)
        if left:
            reasons.setdefault(reason, []).append(f"`{name}`")
        else:
            lines.append(f"| `{name}` | {_tests(text)} |")
    for reason, names in reasons.items():
        lines += ["", f"Left as torch has it: {', '.join(names)}. {reason}"]
    return lines


def _section(section: Section) -> list[str]:
    lines = ["", f"## {section.title}", "", f"[The guide's page]({GUIDE}/{section.page}.html)."]
    if section.rows:
        lines += ["", "| asked for | done in | tested by |", "| --- | --- | --- |"]
    for row in section.rows:
        files = ", ".join(f"`{file}`" for file in row.files.split())
        lines.append(f"| {row.asked} | {files} | {_tests(row.tests)} |")
    for interface in INTERFACES:
        if interface.page == section.page:
            lines += _interface(interface)
    return lines


def page() -> str:
    """The text of docs/accelerator-guide.md."""
    lines = [
        "# PyTorch's guide for accelerators, answered",
        "",
        f"[PyTorch's guide]({GUIDE}/index.html)",
        "is for those who bring a device to it from outside. A driver needs none of it: this project has done it. The",
        "page says where, and which test shows it, for those who compare, and for those who look how it can be done.",
        "`python tools/list_guide.py` writes it. A test compares the tables of classes with the installed torch: they",
        "have each of its virtual functions and methods.",
    ]
    for section in SECTIONS:
        lines += _section(section)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}, check=parser(__doc__).parse_args().check))
