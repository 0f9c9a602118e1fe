"""Random functions (transforms.py) under vmap, jvp, vjp and functionalize are the CPU's; compiled and captured they are
what they are in eager mode."""

from __future__ import annotations

import pytest
import torch

from fuzz.rounds import Fuzz
from fuzz.transforms import TRANSFORMS, RandomFunction, disagreement, outcome

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformed_functions_agree_with_the_cpu(fuzz: Fuzz, device: torch.device, name: str) -> None:
    compared = 0
    for seed in fuzz.seeds(60):
        function = RandomFunction(seed)
        expected = outcome(TRANSFORMS[name], *function.on("cpu"))
        actual = outcome(TRANSFORMS[name], *function.on(str(device)))
        problem = disagreement(expected, actual)
        assert problem is None, f"{name} of {seed}: {problem}\n\n{function.script()}"
        compared += isinstance(expected, list)
    fuzz.made("transformed functions", compared)
    assert compared > 0


def differs_on_the_cpu(function: RandomFunction, dynamic: bool) -> bool:
    """Whether PyTorch's own compiler differs from eager mode, too.

    It does in ldexp and isin of two dtypes, in lerp of bool, and in operands of a symbolic size that is 1.
    """
    on_cpu, arguments = function.on("cpu")
    expected = outcome(on_cpu, *arguments)
    torch._dynamo.reset()
    return disagreement(expected, outcome(torch.compile(on_cpu, dynamic=dynamic), *arguments)) is not None


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("backend", "rounds"), [("mydev_program", 12), ("mydev_kernels", 4)])
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_functions_are_those_of_eager_mode(
    fuzz: Fuzz, device: torch.device, backend: str, rounds: int, dynamic: bool
) -> None:
    compared = 0
    for seed in fuzz.seeds(rounds, first=1000 * dynamic):
        function = RandomFunction(seed)
        eager, arguments = function.on(str(device))
        expected = outcome(eager, *arguments)
        torch._dynamo.reset()
        compiled = torch.compile(eager, backend=backend, dynamic=dynamic)
        for _ in range(2):
            actual = outcome(compiled, *arguments)
            problem = disagreement(expected, actual)
            if problem is not None and differs_on_the_cpu(function, dynamic):
                break
            assert problem is None, f"{backend} of {seed}: {problem}\n\n{function.script()}"
        compared += 1
    fuzz.made(f"functions compiled by {backend}", compared)


def test_captured_functions_are_those_of_eager_mode(fuzz: Fuzz, device: torch.device) -> None:
    captured = 0
    for seed in fuzz.seeds(60):
        function = RandomFunction(seed)
        eager, arguments = function.on(str(device))
        expected = outcome(eager, *arguments)
        graph = torch.mydev.MyDevGraph()  # type: ignore[attr-defined]
        try:
            with torch.mydev.graph(graph):  # type: ignore[attr-defined]
                results = eager(*arguments)
        except RuntimeError:  # an operator without a kernel
            continue
        for x in arguments:
            x.mul_(1)
        graph.replay()
        problem = disagreement(expected, list(results))
        assert problem is None, f"captured {seed}: {problem}\n\n{function.script()}"
        captured += 1
    fuzz.made("captured functions", captured)
    assert captured > 0
