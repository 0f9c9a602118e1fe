"""Which tests a run asks: a pytest plugin that chooses them by the CRC-32 of their names, so that no list is kept.

``--part=quick``  one test in four, and the first of each file: what ``make test`` asks
``--part=rest``   all others
``--third=T``     a third of the tests, of those that other passes of ``make check`` ask too: T is 0, 1 or 2. Tests that
                  choose their own driver (``any_driver``), or that need memory that the host reaches (``host_access``),
                  are not left out. With ``--third-of``, of tests in the named rooms alone

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
    group.addoption(
        "--third-of", action="append", default=[], metavar="ROOM", help="--third is about tests in tests/ROOM alone"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, third, rooms = (config.getoption(name) for name in ("part", "third", "third_of"))
    kept, left = [], []
    file = None
    for item in items:
        is_first, file = item.path != file, item.path
        code = zlib.crc32(item.nodeid.encode())
        is_quick = is_first or code % QUICK_SHARE == 0
        wanted = part == "all" or (part == "quick") == is_quick
        if third is not None and (not rooms or _room(item) in rooms) and not _is_asked_once(item):
            wanted = wanted and code // QUICK_SHARE % 3 == third
        (kept if wanted else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _room(item: pytest.Item) -> str:
    return item.path.parent.name


def _is_asked_once(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("any_driver", "host_access"))
