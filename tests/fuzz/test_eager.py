"""Random programs of eager mode (eager.py) give the CPU's values, dtypes, shapes and strides, line by line."""

from __future__ import annotations

import pytest
import torch

from fuzz.eager import EagerProgram, GradientProgram
from fuzz.rounds import Fuzz

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("part", range(8))
def test_programs_agree_with_the_cpu(fuzz: Fuzz, device: torch.device, part: int) -> None:
    lines = refused = 0
    for seed in fuzz.seeds(200, first=part * 1_000_000):
        program = EagerProgram(seed, str(device))
        problem = program.run()
        assert problem is None, f"{problem}\n\n{program.script()}"
        lines, refused = lines + len(program.lines), refused + program.refused
        fuzz.made("eager programs")
    fuzz.made("lines of eager programs", lines)
    assert lines > 3 * refused > 0, "most lines are to be valid, and some not"


@pytest.mark.parametrize("part", range(4))
def test_gradients_agree_with_the_cpu(fuzz: Fuzz, device: torch.device, part: int) -> None:
    gradients = 0
    for seed in fuzz.seeds(100, first=part * 1_000_000):
        program = GradientProgram(seed, str(device))
        problem = program.run()
        assert problem is None, f"{problem}\n\n{program.script()}"
        gradients += program.gradients
        fuzz.made("programs with gradients")
    fuzz.made("gradients", gradients)
    assert gradients > 0
