"""The part of these tests that ``make check`` runs: ``--fifth``.

A process of PyTorch/XLA takes long to start, so one computes all cases of a table for a driver. The part asks each
table with its plainest driver alone, and one in five of the other tests, by the CRC-32 of their names.
"""

from __future__ import annotations

import zlib

import pytest

PLAINEST = ("host", "host:devices=2", "torchrun, 2")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fifth", action="store_true", help="the part of the tests that make check runs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("fifth"):
        return
    kept = [item for item in items if _is_in_fifth(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _is_in_fifth(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    started_with = parameters.get("driver", parameters.get("job"))
    if "name" in parameters and started_with is not None:
        return started_with in PLAINEST
    return zlib.crc32(item.name.encode()) % 5 == 0
