"""docs/accelerator-guide.md: its tables have all that torch lets a backend give, and what they name is there."""

from __future__ import annotations

import re

import list_guide
import pytest
from guide_tables import INTERFACES, LEFT, SECTIONS, Interface

from support.checkout import ROOT, TESTS

ROWS = [row for section in SECTIONS for row in section.rows]
NAMED = [
    *(test for row in ROWS for test in row.tests.split()),
    *(test for interface in INTERFACES for test in interface.entries.values() if not test.startswith(LEFT)),
]


def test_page_is_that_of_the_program() -> None:
    assert list_guide.PAGE.read_text(encoding="utf-8") == list_guide.page(), "run python tools/list_guide.py"


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.name)
def test_tables_have_each_entry_of_the_installed_torch(interface: Interface) -> None:
    asked = list_guide.asked(interface)
    assert len(asked) > 5
    assert set(interface.entries) == asked


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.name)
def test_entries_are_given_or_left_to_torch(interface: Interface) -> None:
    left = {name for name, test in interface.entries.items() if test.startswith(LEFT)}
    assert set(interface.entries) & list_guide.given(interface) == set(interface.entries) - left


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.name)
def test_tables_belong_to_a_page(interface: Interface) -> None:
    assert interface.page in {section.page for section in SECTIONS}


def test_files_are_there() -> None:
    assert [file for row in ROWS for file in row.files.split() if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("named", sorted(set(NAMED)))
def test_tests_are_there(named: str) -> None:
    path, _, name = named.partition("::")
    text = (TESTS / path).read_text(encoding="utf-8")
    assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE)
