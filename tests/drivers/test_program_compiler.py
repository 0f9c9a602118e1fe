"""A device that compiles programs and has no kernels (tests/drivers/programs): every client's programs reach it, and
steps that it does not take run as on any other device."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pjrt.clients import require
from support.checkout import DRIVERS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
DRIVER = str(DRIVERS / "program_driver.so")

START = f"""
import ctypes

driver = ctypes.CDLL({DRIVER!r})
driver.mydev_test_programs.restype = ctypes.c_int64
ASKED, COMPILED, STEPS, RUNS, DESTROYED, LOADED = range(6)

def count(counter):
    return driver.mydev_test_programs(counter)
"""

TORCH = """
import gc
import torch, torch_mydev

torch.manual_seed(0)

def step(x, w, b):
    h = torch.relu(x @ w + b)
    h.mul_(0.5)
    parts = torch.cat([h, torch.sin(h)], dim=1)  # it has no code for sin
    return (parts[:, ::2] - b[0]).t(), h

cpu = torch.randn(5, 6), torch.randn(6, 4), torch.randn(4)
expected = step(*cpu)
"""

CAPTURED = """
x, w, b = (t.to("mydev") for t in cpu)
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    results = step(x, w, b)
for round in range(3):
    x.copy_(cpu[0] + round)
    before = count(RUNS)
    graph.replay()
    assert count(RUNS) - before == 2, count(RUNS) - before  # before sin and behind it
    for actual, wanted in zip(results, step(cpu[0] + round, *cpu[1:])):
        torch.testing.assert_close(actual.cpu(), wanted)
assert count(COMPILED) == 2, count(COMPILED)
with torch.mydev.launch_statistics() as statistics:
    graph.replay()
names = [row.name for row in statistics.rows if "compiled by driver" in row.name]
assert len(names) == 2 and any("mydev.matmul" in name for name in names), names
del graph, results
gc.collect()
torch.mydev.synchronize()
assert count(DESTROYED) == count(COMPILED)
"""

COMPILED = """
compiled = torch.compile(step, backend="mydev_program")
moved = tuple(t.to("mydev") for t in cpu)
for _ in range(3):
    for actual, wanted in zip(compiled(*moved), expected):
        torch.testing.assert_close(actual.cpu(), wanted)
assert count(RUNS) >= 3, count(RUNS)

# The steps themselves are captured, so that the graph as a whole can be offered.
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    results = compiled(*moved)
graph.replay()
for actual, wanted in zip(results, expected):
    torch.testing.assert_close(actual.cpu(), wanted)
"""

JAX = """
import jax, jax.numpy as jnp, numpy as np

cpu = jax.devices("cpu")[0]

def layer(x, w):
    return jnp.tanh(x @ w) * 2 + x

def loop(x, w):
    return jax.lax.fori_loop(0, 4, lambda i, h: layer(h, w), x)

def chosen(x, w):
    return jax.lax.cond(x.sum() > 0, layer, lambda x, w: -x, x, w)

x, w = np.float32(np.random.default_rng(0).standard_normal((2, 4, 4)))
for function in layer, loop, chosen, jax.grad(lambda x, w: layer(x, w).sum()):
    before = count(RUNS)
    actual = jax.jit(function)(x, w)
    with jax.default_device(cpu):
        expected = jax.jit(function)(x, w)
    assert count(RUNS) > before, function
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
"""

FAILS = """
x, w, b = (t.to("mydev") for t in cpu)
graph = torch.mydev.MyDevGraph()
try:
    with torch.mydev.graph(graph):
        results = step(x, w, b)
    graph.replay()
    torch.mydev.synchronize()
except RuntimeError as error:
    assert "was told to fail" in str(error) and "program" in str(error), error
else:
    raise AssertionError("nothing was raised")
"""

DECLINES = """
import logging

logging.basicConfig(level="INFO")
x, w, b = (t.to("mydev") for t in cpu)
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    results = step(x, w, b)
graph.replay()
for actual, wanted in zip(results, expected):
    torch.testing.assert_close(actual.cpu(), wanted)
assert count(ASKED) > 0 and count(STEPS) == count(COMPILED)
"""


KEPT = """
x, w, b = (t.to("mydev") for t in cpu)
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    results = step(x, w, b)
graph.replay()
for actual, wanted in zip(results, expected):
    torch.testing.assert_close(actual.cpu(), wanted)
print(count(COMPILED), count(LOADED))
"""


@pytest.fixture
def run_with_compiler(run_python: Run, tmp_path: Path) -> Run:
    """Runs code on the device, with a cache of the test's own."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        result = run_python(START + code, MYDEV_DRIVER=DRIVER, XDG_CACHE_HOME=str(tmp_path), **environment)
        assert result.returncode == 0, result.stdout + result.stderr
        return result

    return run


def test_captured_graphs_run_what_the_device_compiled(run_with_compiler: Run) -> None:
    run_with_compiler(TORCH + CAPTURED)


def test_compiled_functions_run_what_the_device_compiled(run_with_compiler: Run) -> None:
    run_with_compiler(TORCH + COMPILED)


def test_programs_of_jax_run_what_the_device_compiled(run_with_compiler: Run) -> None:
    require("jax", "jax==0.10.2")
    run_with_compiler(JAX, JAX_PLATFORMS="mydev,cpu")


@pytest.mark.parametrize("told", ["compile", "run"])
def test_failures_of_the_compiler_name_the_program(run_with_compiler: Run, told: str) -> None:
    run_with_compiler(TORCH + FAILS, PROGRAM_COMPILER=told)


def test_a_compiler_may_decline_steps_together(run_with_compiler: Run) -> None:
    """Then they run one by one, and a program of one step is still the compiler's."""
    log = run_with_compiler(TORCH + DECLINES, PROGRAM_COMPILER="decline").stderr
    assert "it was told to take one step at a time" in log
    assert "it has no code for mydev.sin of these operands" in log


def test_executables_are_kept_for_the_next_process(run_with_compiler: Run, tmp_path: Path) -> None:
    def counts(**environment: str) -> str:
        return run_with_compiler(TORCH + KEPT, **environment).stdout.strip()

    assert counts() == "2 0"
    assert counts() == "0 2"
    assert counts(PROGRAM_COMPILER="stale") == "2 0"
    for file in (tmp_path / "torch_mydev" / "binaries").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert counts() == "2 0"
