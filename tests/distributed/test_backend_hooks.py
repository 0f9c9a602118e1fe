"""Hooks for the end of collectives, which torch 2.15 registers with a backend, for its flight recorder among others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
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


@pytest.fixture
def unrecorded() -> Iterator[Ranks]:
    """Two ranks without the flight recorder, which would write files."""
    ranks = Ranks(2, TORCH_FR_BUFFER_SIZE="0")
    yield ranks
    ranks.stop()


def call_hooks(rank: int, size: int) -> None:
    ranks = dist.new_group(timeout=timedelta(seconds=1))
    backend: Any = ranks._get_backend(device())
    assert backend.supports_abort_hooks
    calls: list[str] = []
    backend.register_abort_hook(1, lambda: calls.append("kept"))
    backend.register_abort_hook(2, lambda: calls.append("taken away"))
    backend.unregister_abort_hook(2)
    dist.all_reduce(torch.ones(3, device=device()), group=ranks)
    torch.mydev.synchronize()
    assert calls == []
    if rank == 0:  # the other does not call it
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(3, device=device()), group=ranks)
            torch.mydev.synchronize()
        assert set(calls) == {"kept"}
    dist.barrier()
    calls.clear()
    backend.abort()
    assert calls == []


def test_abort_hooks_are_called_when_a_collective_fails(unrecorded: Ranks) -> None:
    cases.run(unrecorded, call_hooks)
