"""Which tests a run asks: a pytest plugin that chooses them by the CRC-32 of their names, so that no list is kept.

``--part=quick``  one test in ten, and the first of each file, but none that is marked slow: what ``make test`` asks
``--part=rest``   all others
``--shard=N``     a tenth of these; of those that are marked slow, a third of that

N counts commits (tools/passes.py): ten that follow each other ask all tests but slow ones, 30 all. Tests that take
long may take their share of what they ask from it too (`share_of_shard`): another one with each ten commits.
"""

from __future__ import annotations

import zlib

import pytest

QUICK_SHARE = 10
SHARDS = 10
SLOW_SHARDS = 3 * SHARDS


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection")
    group.addoption("--part", choices=("all", "quick", "rest"), default="all", help="a fixed part of the tests")
    group.addoption("--shard", type=int, help="a tenth of the tests: those of this shard")


def share_of_shard(config: pytest.Config, of: int) -> str:
    """I/N: the one of ``of`` shares of its questions that a long test asks in this shard; 0/1, all, without one."""
    shard = config.getoption("shard")
    return "0/1" if shard is None else f"{shard // SHARDS % of}/{of}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, shard = config.getoption("part"), config.getoption("shard")
    kept, left = [], []
    file = None  # that has a quick test
    for item in items:
        code = zlib.crc32(item.nodeid.encode())
        is_slow = item.get_closest_marker("slow") is not None
        is_quick = not is_slow and (item.path != file or code % QUICK_SHARE == 0)
        if is_quick:
            file = item.path
        wanted = part == "all" or (part == "quick") == is_quick
        if shard is not None:
            shards = SLOW_SHARDS if is_slow else SHARDS
            wanted = wanted and code // QUICK_SHARE % shards == shard % shards
        (kept if wanted else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
