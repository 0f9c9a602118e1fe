"""The seeds that a fuzz test asks, and the count of what it made of them: a plugin that tells it at the end."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

made: Counter[str] = Counter()  # by kind, of the process


class Fuzz:
    def __init__(self, minutes: float | None, seed: int | None) -> None:
        self._minutes, self._seed = minutes, seed

    def seeds(self, rounds: int, first: int = 0) -> Iterator[int]:
        """`rounds` seeds from `first` on, or as many as there is time for."""
        if self._seed is not None:
            first = self._seed
        elif self._minutes is not None:
            first = random.SystemRandom().randrange(1 << 40)
        if self._minutes is None:
            yield from range(first, first + rounds)
            return
        end = time.monotonic() + 60 * self._minutes
        while time.monotonic() < end:
            yield first
            first += 1

    def made(self, kind: str, count: int = 1) -> None:
        """Adds to the counts that are reported at the end, so that a fuzzer that makes nothing is seen."""
        made[kind] += count


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    made.update(getattr(node, "workeroutput", {}).get("fuzz", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind, count in sorted(made.items()):
        terminalreporter.write_line(f"fuzz: {count:,} {kind}")
