"""The table of a benchmark, and what benchmarks of several processes share.

Rows are timed as ``mydev bench`` times them (torch_mydev/cli/bench/timing.py). One whose two ratios disagree by more
than a tenth is marked ``~``. If others use the machine too, ``--processor-time`` counts the processor time of all
threads of this process instead.

    benchmark = Benchmark("pointwise")
    benchmark.row("add, 16", cpu=lambda: a + b, mydev=lambda: c + d)
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

from torch_mydev.cli.bench.timing import ROUNDS, Clock, compare, duration, seconds_of
from torch_mydev.cli.bench.timing import Row as Row

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
            seconds[lane].append(seconds_of(lanes[lane], 1))
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
            f"{row.name:<34} {duration(row.rival_seconds):>10} {duration(row.device_seconds):>10}"
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
