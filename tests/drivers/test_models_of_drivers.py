"""The eight models are trained on drivers that bring no kernel, few, or a compiler alone, each in a child."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support import models
from support.checkout import DRIVERS

pytestmark = [pytest.mark.any_driver, pytest.mark.slow]

Run = Callable[..., subprocess.CompletedProcess[str]]

COMPILER = "host:remote,kernels=compiled"

START = """
import torch, torch_mydev
from support import models
from support.graphs import capture

device = torch.device("mydev")
"""


def output_of(run_python: Run, name: str, program: str, driver: str) -> str:
    result = run_python(f"NAME = {name!r}\n{START}{program}", MYDEV_DRIVER=driver, PYTHONPATH="tests")
    assert result.returncode == 0, result.stderr
    return result.stdout


CAPTURED = """
def training(name):
    torch.manual_seed(0)
    example = models.build(name).to(device)
    optimizer = torch.optim.SGD(example.module.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = example.loss()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, example.module

step, eager = training(NAME)
expected = [step().item() for _ in range(3)]
step, graphed = training(NAME)
graph, loss = capture(step)
losses = []
with torch_mydev.fallback_census() as census:
    for _ in range(2):
        graph.replay()
        losses.append(loss.item())
assert census.staged_calls == census.total_calls, census
print(census.total_calls > 0)
torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected[1:]))
for got, wanted in zip(graphed.parameters(), eager.parameters(), strict=True):
    torch.testing.assert_close(got.cpu(), wanted.cpu())
print("equal")
"""


@pytest.mark.parametrize("name", models.MODELS)
@pytest.mark.parametrize(
    "driver", ["host:remote,async,guarded,kernels=none", str(DRIVERS / "partial_driver.so"), COMPILER]
)
def test_training_steps_of_models_are_captured(run_python: Run, driver: str, name: str) -> None:
    staged = driver != COMPILER
    assert output_of(run_python, name, CAPTURED, driver) == f"{staged}\nequal\n"


EAGER = """
example = models.build(NAME)
with torch_mydev.fallback_census() as census:
    losses = example.to("mydev").train()
torch.testing.assert_close(losses, example.train(), rtol=1e-4, atol=1e-5)
print(sorted({row.op for row in census.rows}))
"""


@pytest.mark.parametrize("name", models.MODELS)
def test_a_compiler_is_enough_to_train_without_a_fallback(run_python: Run, name: str) -> None:
    assert output_of(run_python, name, EAGER, COMPILER) == "[]\n"


COMPILED = """
example = models.build(NAME)
compiled = example.to("mydev")
losses = compiled.train(torch.compile(compiled.module, backend=BACKEND))
torch.testing.assert_close(losses, example.train(), rtol=1e-4, atol=1e-5)
print({graph.reason for graph in torch_mydev.compile_report().graphs})
"""


@pytest.mark.parametrize("name", models.MODELS)
@pytest.mark.parametrize("backend", ["mydev", "mydev_kernels"])
def test_a_compiler_is_enough_for_compiled_models(run_python: Run, backend: str, name: str) -> None:
    assert output_of(run_python, name, f"BACKEND = {backend!r}\n{COMPILED}", COMPILER) == "{None}\n"
