"""docs/accelerator-guide.md: its tables have all that torch lets a backend give, and what they name is there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from support.checkout import ROOT, TESTS

PAGE = (ROOT / "docs" / "accelerator-guide.md").read_text(encoding="utf-8")
#: The columns of a table of the guide.
ROWS = re.findall(r"^\| (?!asked for|---)(.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)

# "`Ours` in `file`, from `Base` in `header or module of torch` and …:", a table of entries, and what is left.
_CLASS = re.compile(
    r"^(?P<classes>`\w+` in `[^:]*):\n\n(?P<table>(?:\|.*\n)+)(?P<left>(?:\nLeft as torch has it: (?:.+\n)+)*)",
    re.MULTILINE,
)
_LEFT = re.compile(r"Left as torch has it: ((?:`[\w.]+`(?:,\s)?)+)\.")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_VIRTUAL = re.compile(r"\bvirtual\s+[^;{=()]*?(~?\w+)\(")


@dataclass(frozen=True)
class Derived:
    """A class of this project that derives from classes of torch, as the page has it."""

    name: str
    file: str
    bases: dict[str, str]  #: classes by the header or module of torch
    tested: list[str]  #: the entries that have a test
    left: list[str]  #: the entries that are left as torch has them

    def asked(self) -> set[str]:
        """The names of what the installed torch lets a backend give."""
        return set().union(*(_members(_source_of_torch(place), name) for place, name in self.bases.items()))

    def given(self) -> set[str]:
        """The names of what this project gives."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if self.file.endswith(".py"):
            return _python_members(text, self.name)
        return set(re.findall(r"\b(\w+)\([^;{]*?\)[^;{]*\boverride\b", _body(text, self.name)))


def _derived(found: re.Match[str]) -> Derived:
    (name, file), *bases = re.findall(r"`(\w+)`\sin\s`([^`]+)`", found["classes"])
    tested = "".join(re.findall(r"^\| (.+) \| `tests/[^`]+` \|$", found["table"], re.MULTILINE))
    left = "".join(_LEFT.findall(found["left"]))
    entries = (re.findall(r"`([\w.]+)`", names) for names in (tested, left))
    return Derived(name, file, {place: base for base, place in bases}, *entries)


def _source_of_torch(place: str) -> Path:
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


DERIVED = [_derived(found) for found in _CLASS.finditer(PAGE)]


def test_each_table_is_read() -> None:
    names = ["Hooks", "DeviceGuard", "Allocator", "DynamoInterface", "_DeviceOperations"]
    assert [derived.name for derived in DERIVED] == names
    of_classes = sum(found["table"].count("\n") for found in _CLASS.finditer(PAGE))
    headings = 2 * PAGE.count("\n| asked for | done in | tested by |\n")
    assert len(ROWS) == PAGE.count("\n| ") - of_classes - headings > 40


@pytest.mark.parametrize("derived", DERIVED, ids=lambda derived: derived.name)
def test_tables_have_each_entry_of_the_installed_torch(derived: Derived) -> None:
    asked = derived.asked()
    assert len(asked) > 5
    assert sorted(derived.tested + derived.left) == sorted(asked)


@pytest.mark.parametrize("derived", DERIVED, ids=lambda derived: derived.name)
def test_entries_are_given_or_left_to_torch(derived: Derived) -> None:
    assert {*derived.tested, *derived.left} & derived.given() == set(derived.tested)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_files_are_there(row: tuple[str, str, str]) -> None:
    files = re.findall(r"`([^`]+)`", row[1])
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`tests/([^`]+)`", PAGE))))
def test_tests_are_there(named: str) -> None:
    path, _, name = named.partition("::")
    text = (TESTS / path).read_text(encoding="utf-8")
    assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE)
