"""Tests of programs that start by themselves, or of libraries beyond requirements/test.txt: make test-ecosystem."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--ecosystem"):
        return
    left_out = [item for item in items if item.get_closest_marker("program")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
