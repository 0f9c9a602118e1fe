"""Drivers that bring no kernel, or few: what is captured runs the host's kernels on copies, in the stream's order.

Each program runs in a child, on its driver.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
NONE = ["host:remote,kernels=none", "host:remote,async,guarded,kernels=none", str(DRIVERS / "discrete_driver.so")]
FEW = str(DRIVERS / "partial_driver.so")  # seven kernels, of dense f32

START = """
import torch, torch_mydev
from support.graphs import capture
from torch import nn

device = torch.device("mydev")
"""


def output_of(run_python: Run, program: str, driver: str, **variables: str) -> str:
    result = run_python(START + program, MYDEV_DRIVER=driver, PYTHONPATH="tests", **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


CENSUS = """
x = torch.arange(3300.0, device=device).reshape(1100, 3)  # steps over fewer elements would be one
z = x.t().contiguous()
graph, y = capture(lambda: (x @ z).relu().argmax(1))
with torch_mydev.fallback_census() as census:
    for _ in range(3):
        graph.replay()
    torch.mydev.synchronize()
assert y.tolist() == [1099] * 1100
rows = {row.op: row for row in census.rows}
assert census.staged_calls == census.total_calls and census.total_calls % 3 == 0, census
assert all(row.kernel == row.op and row.bytes_copied > 0 for row in census.rows), census
print(*sorted(rows), sep=",")
print(rows["mydev.max_with_index"].declined if "mydev.max_with_index" in rows else "")
"""


@pytest.mark.parametrize("driver", [*NONE, FEW])
def test_steps_on_copies_are_counted_by_kernel(run_python: Run, driver: str) -> None:
    kernels = output_of(run_python, CENSUS, driver).splitlines()[0]
    assert "argmax" in kernels or "max_with_index" in kernels
    assert ("matmul" in kernels) == (driver != FEW)


def test_the_mode_error_forbids_steps_on_copies(run_python: Run) -> None:
    program = """
x = torch.ones(4, device=device)
graph, y = capture(lambda: x.cumsum(0))
with torch_mydev.fallback_mode("error"):
    try:
        graph.replay()
    except NotImplementedError as error:
        print(error)
graph.replay()
print(y.tolist())
"""
    refusal, values = output_of(run_python, program, NONE[1]).splitlines()
    assert "mydev.cumsum" in refusal and "falling back to the CPU is forbidden" in refusal
    assert "step 0 of program" in refusal
    assert values == "[1.0, 2.0, 3.0, 4.0]"


@pytest.mark.parametrize("driver", NONE[:2])
def test_a_step_that_fails_is_named_and_nothing_is_lost(run_python: Run, driver: str) -> None:
    """The index lies beyond the table, which only the kernel sees."""
    program = """
table, index = torch.ones(3, 2, device=device), torch.zeros(2, dtype=torch.int64, device=device)
graph, rows = capture(lambda: table.index_select(0, index))
memory = torch.mydev.memory_allocated()
for value in (7, 0, 7, 0):
    index.fill_(value)
    try:
        graph.replay()
        torch.mydev.synchronize()
        print("fine", rows.sum().item())
    except Exception as error:
        print(type(error).__name__, str(error).replace("\\n", " "))
assert torch.mydev.memory_allocated() == memory
"""
    lines = output_of(run_python, program, driver).splitlines()
    assert lines[1] == lines[3] == "fine 4.0"
    for line in (lines[0], lines[2]):
        assert "mydev.index_select" in line and "7" in line and "step 0 of program" in line, line


@pytest.mark.parametrize(
    ("call", "step", "kernel"), [(1, 0, "mydev.cumsum"), (2, 0, "mydev.cumsum"), (3, 1, "mydev.sort")]
)
def test_a_stream_that_refuses_the_hosts_work_is_named_and_nothing_is_lost(
    run_python: Run, call: int, step: int, kernel: str
) -> None:
    """Work on copies is two calls: of the kernel, and of what keeps the copies until they are done."""
    program = """
x = torch.arange(3300.0, device=device).reshape(1100, 3)
graph, y = capture(lambda: x.cumsum(1).sort(0, descending=True)[0])
memory = torch.mydev.memory_allocated()
for _ in range(3):
    try:
        graph.replay()
        torch.mydev.synchronize()
        print("fine", y[0].tolist())
    except Exception as error:
        print(type(error).__name__, str(error).replace("\\n", " "))
assert torch.mydev.memory_allocated() == memory
"""
    driver = f"host:remote,async,guarded,kernels=none,faults=1:host_call@{call}"
    refused, *others = output_of(run_python, program, driver).splitlines()
    assert f"injected fault in host_call number {call}" in refused
    assert f"step {step} of program 'graph'" in refused and kernel in refused, refused
    assert others == ["fine [3297.0, 6595.0, 9894.0]"] * 2


def test_an_operator_without_a_kernel_of_anyone_is_refused_by_name(run_python: Run) -> None:
    program = """
x = torch.eye(3, device=device)
try:
    capture(lambda: torch.linalg.eigvals(x))
except Exception as error:
    print(str(error).splitlines()[0])
"""
    line = output_of(run_python, program, NONE[1])
    assert "linalg_eig" in line and "cannot be captured" in line


RANDOM = """
torch.manual_seed(3)
values = [torch.rand(7, device=device), torch.randn(7, device=device), torch.randint(9, (7,), device=device)]
values.append(nn.functional.dropout(torch.ones(9, device=device), 0.5))
print([value.tolist() for value in values])
"""


@pytest.mark.parametrize("driver", [*NONE, FEW])
def test_random_numbers_are_those_of_every_device(run_python: Run, driver: str) -> None:
    assert output_of(run_python, RANDOM, driver) == output_of(run_python, RANDOM, "host")


#: Results that share memory, lie apart in it, are updated, or have no elements.
RESULTS = """
base = torch.arange(24.0, device=device).reshape(4, 6)
index = torch.tensor([0, 2, 0, 1], device=device)

def steps():
    work = base.clone()
    work[:, ::2].mul_(2)                       # the elements between stay
    work.t()[1:3].add_(work.t()[3:5])          # overlapping memory of one tensor
    sums = torch.zeros(3, device=device).index_add_(0, index, work[:, 0])
    product = torch.addmm(torch.ones(4, 4, device=device), work, work.t(), beta=0.5)
    return work, sums, product, work[:0].sum(0), work[:0].sum(), work.to(torch.int32).cumsum(1)

expected = [value.cpu() for value in steps()]
graph, results = capture(steps)
graph.replay()
for got, wanted in zip(results, expected, strict=True):
    torch.testing.assert_close(got.cpu(), wanted)
print("equal")
"""


@pytest.mark.parametrize("driver", [*NONE, FEW])
def test_results_of_all_kinds_come_back(run_python: Run, driver: str) -> None:
    assert output_of(run_python, RESULTS, driver) == "equal\n"
