"""The limits of this machine, as they were seen: bytes of memory and multiplications of f32 in a second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from torch_mydev.cli.bench.timing import seconds_of
from torch_mydev.cli.bench.work import Lane

_ROUNDS = 7


class Limits(NamedTuple):
    """The fastest that the CPU or the device reached, whichever was faster."""

    bytes_per_second: float  #: of memory beyond the caches: a sum, or a copy, of 64 MiB
    operations_per_second: float  #: additions and multiplications of f32, in a product of two matrices of 1024 x 1024


def measured(lanes: tuple[Lane, Lane], finish: Callable[[], object]) -> Limits:
    """Times a sum, a copy and a product in both places. Takes about a second."""
    bandwidth = arithmetic = 0.0
    for lane in lanes:
        x, y = lane.normal(1 << 24), lane.normal(1 << 24)
        a, b = lane.normal(1024, 1024), lane.normal(1024, 1024)
        bandwidth = max(bandwidth, (1 << 26) / _best(x.sum, finish), (2 << 26) / _best(partial(y.copy_, x), finish))
        arithmetic = max(arithmetic, (2 << 30) / _best(partial(torch.mm, a, b), finish))
    return Limits(bandwidth, arithmetic)


def _best(call: Callable[[], object], finish: Callable[[], object]) -> float:
    def run() -> None:
        call()
        finish()

    return min(seconds_of(run, 1) for _ in range(_ROUNDS))
