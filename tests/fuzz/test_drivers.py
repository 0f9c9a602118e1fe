"""Random drivers (drivers.py): what they lack is done another way or refused by name, and failures lose nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from fuzz.drivers import environment_of
from fuzz.rounds import Fuzz

Run = Callable[..., "CompletedProcess[str]"]

PROGRAMS = "from fuzz.drivers import run; run({seed}, programs=24)"
FIRST_USE = "import torch, torch_mydev; torch.ones(2, device='mydev')"


@pytest.mark.slow
@pytest.mark.any_driver
def test_programs_on_random_drivers(fuzz: Fuzz, run_python: Run) -> None:
    failed = 0
    for seed in fuzz.seeds(24):
        variables, lacking = environment_of(seed)
        asked = f"seed {seed}: {' '.join(f'{name}={value}' for name, value in variables.items())}"
        if lacking:
            result = run_python(FIRST_USE, **variables)
            assert result.returncode == 1, asked
            assert lacking in result.stderr.splitlines()[-1], f"{asked}\n{result.stderr}"
            fuzz.made("drivers that lack what they must have")
            continue
        result = run_python(PROGRAMS.format(seed=seed), **variables)
        assert result.returncode == 0, f"{asked}\n{result.stdout}\n{result.stderr}"
        made = json.loads(result.stdout.splitlines()[-1])
        failed += made["failed"]
        fuzz.made("random drivers")
        fuzz.made("lines on random drivers", made["lines"])
        fuzz.made("lines in which a driver failed", made["failed"])
    assert failed > 0
