"""Which tests a run asks: a pytest plugin that chooses them by the CRC-32 of their names, so that no list is kept.

``--part=quick``  one test in four, and the first of each file: what ``make test`` asks
``--part=rest``   all others
``--third=T``     a third of these: T is 0, 1 or 2

Thirds rotate by commit (tools/passes.py): three commits that follow each other ask everything.
"""

from __future__ import annotations

import zlib

import pytest

QUICK_SHARE = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection")
    group.addoption("--part", choices=("all", "quick", "rest"), default="all", help="a fixed part of the tests")
    group.addoption("--third", type=int, choices=(0, 1, 2), help="a third of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, third = config.getoption("part"), config.getoption("third")
    kept, left = [], []
    file = None
    for item in items:
        is_first, file = item.path != file, item.path
        code = zlib.crc32(item.nodeid.encode())
        is_quick = is_first or code % QUICK_SHARE == 0
        wanted = part == "all" or (part == "quick") == is_quick
        if third is not None:
            wanted = wanted and code // QUICK_SHARE % 3 == third
        (kept if wanted else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
