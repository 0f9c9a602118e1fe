"""How long the fuzz tests run, and what they made. Without --minutes each asks the seeds from 0 on, as many as fit into
`make check`; with it, seeds from a random one on until its minutes are over: `make test-fuzz MINUTES=n`."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

_made: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--minutes", type=float, help="how long each fuzz test runs, from a random seed on")
    parser.addoption("--seed", type=int, help="the seed that each fuzz test begins with")


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
        """Adds to what is told at the end, so that a fuzzer that makes nothing is seen."""
        _made[kind] += count


@pytest.fixture
def fuzz(request: pytest.FixtureRequest) -> Iterator[Fuzz]:
    yield Fuzz(request.config.getoption("minutes"), request.config.getoption("seed"))
    worker = getattr(request.config, "workeroutput", None)
    if worker is not None:
        worker["fuzz"] = dict(_made)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    _made.update(getattr(node, "workeroutput", {}).get("fuzz", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind, count in sorted(_made.items()):
        terminalreporter.write_line(f"fuzz: {count:,} {kind}")
