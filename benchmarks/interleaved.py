"""Interleaved timing: the device and a rival do the same work, turn by turn, in one process.

A figure of one lane alone says little on a shared machine; the ratio of two lanes that took turns does. Each row runs
rounds of (rival, device), each turn of about ``TURN_SECONDS``, and reports the fastest turn of each lane, the ratio of
those, and the median over rounds of the ratio. A row whose two ratios disagree by more than a tenth is marked ``~``.
If others use the machine too, ``--processor-time`` counts the processor time of all threads of this process instead.

    benchmark = Benchmark("pointwise")
    benchmark.row("add, 16", cpu=lambda: a + b, mydev=lambda: c + d)

Lanes must leave their work finished: on an asynchronous driver the function ends with a synchronization.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
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


def _time(function: Callable[[], object], repeats: int, clock: Clock) -> float:
    start = clock()
    for _ in range(repeats):
        function()
    return (clock() - start) / repeats


def _repeats(function: Callable[[], object]) -> int:
    """How often the function runs in one turn; warms it up."""
    function()
    once = min(_time(function, 1, time.perf_counter) for _ in range(5))
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
        turns = [(_time(rival, repeats[0], clock), _time(device, repeats[1], clock)) for _ in range(rounds)]
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


#: About how much is moved by a lane in one turn of several processes, and how many calls that is at least and at most.
TURN_BYTES = 64 << 20
FEWEST_REPEATS, MOST_REPEATS = 5, 200


def repeats_of(nbytes: int) -> int:
    """How often processes call together, in one turn, what moves so many bytes."""
    return max(FEWEST_REPEATS, min(MOST_REPEATS, TURN_BYTES // nbytes))


def _turn_together(lanes: Sequence[Callable[[], object]], repeats: int, barrier: Callable[[], object]) -> list[float]:
    """The median time of each lane in seconds, its calls one by one between the other's."""
    seconds: list[list[float]] = [[] for _ in lanes]
    barrier()
    for repeat in range(repeats):
        for lane in range(len(lanes)) if repeat % 2 else reversed(range(len(lanes))):
            seconds[lane].append(_time(lanes[lane], 1, time.perf_counter))
    return [statistics.median(times) for times in seconds]


def compare_together(
    name: str,
    lanes: tuple[Callable[[], object], Callable[[], object]],
    repeats: int,
    rounds: int,
    barrier: Callable[[], object],
) -> Row:
    """Times a rival and the device in several processes, which all call this; turns begin behind the barrier.

    Processes of several threads share few cores here, so that one call may take twice the time of the next; what slows
    a while down slows both lanes.
    """
    turns = [_turn_together(lanes, repeats, barrier) for _ in range(rounds + 1)][1:]
    best_rival, best_device = (min(seconds[lane] for seconds in turns) for lane in (0, 1))
    ratio = best_rival / best_device
    return Row(name, best_rival, best_device, ratio, statistics.median(a / b for a, b in turns))


def _duration(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 10_000:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds:.4g} s"


class Benchmark:
    """A table of comparisons. The command line takes a part of row names to run, and the number of rounds.

    ``lanes`` names the rival and what is measured against it.
    """

    def __init__(self, title: str, lanes: tuple[str, str] = ("cpu", "mydev")) -> None:
        parser = argparse.ArgumentParser(description=f"{title}: {lanes[1]} against {lanes[0]}, interleaved")
        parser.add_argument("only", nargs="?", default="", help="run the rows whose name contains this")
        parser.add_argument("--rounds", type=int, default=ROUNDS)
        parser.add_argument("--processor-time", action="store_true", help="of all threads, instead of the wall's")
        arguments = parser.parse_args()
        self._only: str = arguments.only
        self.rounds: int = arguments.rounds
        self._clock: Clock = time.process_time if arguments.processor_time else time.perf_counter
        self.rows: list[Row] = []
        print(f"{title:<34} {lanes[0]:>10} {lanes[1]:>10} {'/'.join(lanes):>10} {'median':>7}")

    def row(self, name: str, cpu: Callable[[], object], mydev: Callable[[], object]) -> None:
        """Runs, prints and keeps one comparison."""
        if not self.wants(name):
            return
        self.add(compare(name, cpu, mydev, self.rounds, self._clock))

    def wants(self, name: str) -> bool:
        """Whether the command line asks for the row of this name."""
        return self._only in name

    def add(self, row: Row) -> None:
        """Prints and keeps a comparison."""
        self.rows.append(row)
        print(
            f"{row.name:<34} {_duration(row.rival_seconds):>10} {_duration(row.device_seconds):>10}"
            f" {row.ratio:>9.2f}x {row.median_ratio:>6.2f}{'~' if row.noisy else ' '}",
            flush=True,
        )

    def print_mean(self) -> None:
        """Prints the geometric mean of the rows' ratios."""
        if self.rows:
            ratio, median = (
                statistics.geometric_mean(ratios)
                for ratios in ([row.ratio for row in self.rows], [row.median_ratio for row in self.rows])
            )
            print(f"{'geometric mean':<34} {'':>10} {'':>10} {ratio:>9.2f}x {median:>6.2f}", flush=True)
