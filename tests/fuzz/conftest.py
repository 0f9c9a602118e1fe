"""How long the fuzz tests run, and what they made. Each asks the seeds from 0 on, as many as fit into `make check`.
With --minutes it asks seeds from a random one on until its time is over: `make test-fuzz MINUTES=n`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuzz.rounds import Fuzz, made


@pytest.fixture
def fuzz(request: pytest.FixtureRequest) -> Iterator[Fuzz]:
    yield Fuzz(request.config.getoption("minutes"), request.config.getoption("seed"))
    worker = getattr(request.config, "workeroutput", None)
    if worker is not None:
        worker["fuzz"] = dict(made)
