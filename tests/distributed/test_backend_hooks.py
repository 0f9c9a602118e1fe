"""Hooks for the end of collectives, which torch 2.15 registers with a backend, for its flight recorder among others."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import torch
import torch.distributed as dist

from support import collective_cases as cases
from support.ranks import Ranks, device
from support.torch_version import needs_torch

pytestmark = needs_torch("2.15")
c10d: Any = torch._C._distributed_c10d


def recorded() -> list[dict[str, Any]]:
    """The flight recorder's entries of the device's backend, oldest first."""
    name = dist.group.WORLD._get_backend(device()).name()  # type: ignore[union-attr]
    entries: list[dict[str, Any]] = json.loads(c10d._dump_fr_trace_json(backend=name)).get("entries", [])
    return entries


def state_of(index: int) -> str:
    """The state of an entry once it is "completed", or after a long time."""
    for _ in range(1_000_000):
        state = str(recorded()[index]["state"])
        if state == "completed":
            break
        os.sched_yield()
    return state


def record_collectives(rank: int, size: int, waits: bool) -> None:
    place = device()
    before = len(recorded())
    works = [dist.all_reduce(torch.ones(1000, device=place), async_op=True) for _ in range(3)]
    if waits:
        for work in works:
            work.wait()
        torch.mydev.synchronize()
    assert [entry["profiling_name"].rpartition(":")[2] for entry in recorded()[before:]] == ["all_reduce"] * 3
    assert [state_of(before + index) for index in range(3)] == ["completed"] * 3


@pytest.mark.parametrize("waits", [True, False])
def test_the_flight_recorder_sees_that_collectives_complete(group: Ranks, waits: bool) -> None:
    cases.run(group, record_collectives, waits=waits)
