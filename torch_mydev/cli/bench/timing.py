"""Interleaved timing: the device and a rival do the same work, turn by turn, in one process.

A figure of one lane alone says little on a shared machine; the ratio of two lanes that took turns does. Each row runs
rounds of (rival, device), each turn of about ``TURN_SECONDS``, and reports the fastest turn of each lane, the ratio of
those, and the median over rounds of the ratio. A row whose two ratios disagree by more than a tenth is noisy.

Lanes must leave their work finished: on an asynchronous driver the function ends with a synchronization.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]  # in seconds

TURN_SECONDS = 0.005
ROUNDS = 25


@dataclass(frozen=True)
class Row:
    """The figures of one piece of work. Ratios are rival / device: more than 1 means that the device is faster."""

    name: str
    rival_seconds: float
    device_seconds: float
    ratio: float  #: of the fastest turns
    median_ratio: float  #: over rounds

    @property
    def noisy(self) -> bool:
        return abs(self.ratio - self.median_ratio) > 0.1 * self.ratio


def seconds_of(function: Callable[[], object], repeats: int, clock: Clock = time.perf_counter) -> float:
    """The time of a call, as a mean over some."""
    start = clock()
    for _ in range(repeats):
        function()
    return (clock() - start) / repeats


def _repeats(function: Callable[[], object]) -> int:
    """How often the function runs in one turn; warms it up."""
    function()
    once = min(seconds_of(function, 1) for _ in range(5))
    return max(1, int(TURN_SECONDS / max(once, 1e-9)))


def compare(
    name: str,
    rival: Callable[[], object],
    device: Callable[[], object],
    rounds: int = ROUNDS,
    clock: Clock = time.perf_counter,
) -> Row:
    """Times both, taking turns."""
    repeats = _repeats(rival), _repeats(device)
    gc.disable()
    try:
        turns = [(seconds_of(rival, repeats[0], clock), seconds_of(device, repeats[1], clock)) for _ in range(rounds)]
    finally:
        gc.enable()
    best_rival, best_device = (min(turn[lane] for turn in turns) for lane in (0, 1))
    return Row(
        name,
        best_rival,
        best_device,
        best_rival / best_device,
        statistics.median(a / b for a, b in turns),
    )


def duration(seconds: float) -> str:
    """The time with a unit that suits it."""
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 10_000:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds:.4g} s"
