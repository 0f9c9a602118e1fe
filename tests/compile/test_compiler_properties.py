"""Generated kernels on a device with other properties than the host's: groups of one thread, few groups in a dimension,
buffers as a base and an offset, a fault word, neither f64 nor 64-bit atomics (tests/drivers/compilers)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
DRIVER = str(DRIVERS / "compiler_driver.so")

START = """
import torch, torch_mydev
import torch.nn.functional as F

torch.manual_seed(0)

def compiled(function, *args, calls=()):
    torch._dynamo.reset()
    torch_mydev.reset_compile_report()
    results = torch.compile(function)(*[arg.to("mydev") for arg in args])
    torch.testing.assert_close(results.cpu(), function(*args), equal_nan=True)
    graphs = torch_mydev.compile_report().graphs
    return {graph.route for graph in graphs}, {call for graph in graphs for call in graph.calls}
"""

#: Each line prints its function's routes and calls.
LIKE_THE_CPU = """
x = torch.randn(40, 70)
x[3, 4], x[5, 6] = float("nan"), float("inf")
many = torch.randn(1100 * 64)
half = torch.randn(33).half()
ids = torch.tensor([0, 2, 2, 5])

# The CPU's gelu of an infinity is NaN where it has AVX-512.
print(compiled(lambda x: x.tanh() + x.erf() * F.gelu(x.clamp(-9, 9)) - x.sigmoid(), x))
print(compiled(lambda x: x[1:, 3:] * 2 + x[:-1, :-3].t().contiguous().t(), x))
print(compiled(lambda x: F.softmax(x, -1), torch.randn(5, 300)))
print(compiled(lambda x: F.layer_norm(x, (70,)), torch.randn(40, 70)))
print(compiled(lambda x: x.sum(0) + x.amax(0), x))
print(compiled(lambda x: x * 3 - 1, many))
print(compiled(lambda x: x.float().exp().half() + 1, half))
print(compiled(lambda x: x.argmax(1) + 1, torch.randn(6, 50)))
print(compiled(lambda x, i: torch.zeros(7, 3).to(x.device).index_add(0, i, x), torch.randn(4, 3), ids))
print(compiled(lambda x: x * 0 + 1, torch.empty(0, 4)))
print(compiled(lambda x: x + 1, torch.tensor(2.0)))
"""

OUT_OF_BOUNDS = """
table, ids = torch.randn(4, 3, device="mydev"), torch.tensor([0, 9], device="mydev")
take = torch.compile(lambda table, ids: table[ids] * 2)
for _ in range(2):
    try:
        take(table, ids)
        torch.mydev.synchronize()
        print("no error")
    except IndexError as error:
        print("IndexError", "out of bounds" in str(error))
print(take(table, ids.clamp(max=3)).shape)
"""

WITHOUT = """
print(compiled(lambda x: x.double().cumsum(0).float() + 1, torch.randn(5)))
print(compiled(lambda x: (x.double() * 2).float(), torch.randn(5)))
print(compiled(lambda x, i: torch.zeros(7, dtype=torch.int64).to(x.device).index_add(0, i, x), torch.arange(4),
               torch.tensor([0, 2, 2, 5])))
"""


def lines(run_python: Run, code: str) -> list[str]:
    result = run_python(START + code, MYDEV_DRIVER=DRIVER)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.slow
def test_functions_give_the_cpus_values(run_python: Run) -> None:
    printed = lines(run_python, LIKE_THE_CPU)
    assert len(printed) == 11
    assert all(line.startswith("({'kernels'}") for line in printed), printed


def test_an_index_that_is_out_of_bounds_is_an_index_error(run_python: Run) -> None:
    assert lines(run_python, OUT_OF_BOUNDS) == ["IndexError True", "IndexError True", "torch.Size([2, 3])"]


@pytest.mark.slow
def test_what_the_device_cannot_do_is_not_generated(run_python: Run) -> None:
    _, doubles, atomics = lines(run_python, WITHOUT)
    assert "kernels" in doubles
    assert "aten" in doubles  # calls of the device's own
    assert "index_put" in atomics  # which adds int64 from several threads
