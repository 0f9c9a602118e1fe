"""A driver with a few kernels that take little: calls that they decline run as without them, and are reported."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS, environment
from support.fork_server import ForkServer

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
PARTIAL = str(DRIVERS / "partial_driver.so")
CORE = str(DRIVERS / "core_driver.so")

#: Prints the census, by operator, of everyday expressions that a vendor's first kernels decline.
DECLINED = """
import json
import torch, torch_mydev

device = torch_mydev.device_name
x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
cases = {
    "aten::add.Tensor": lambda t: t.long() + t.long(),
    "aten::mul.Tensor": lambda t: t * 1.5,
    "aten::relu": lambda t: t[:, ::2].relu(),
    "aten::mm": lambda t: t.bfloat16() @ t.bfloat16().t(),
    "aten::sum.dim_IntList": lambda t: t.sum(0),
    "aten::sum": lambda t: t[:, :0].sum(),
    "aten::fill_.Scalar": lambda t: t.double()[:, ::2].fill_(2),  # what is dense, the driver fills by itself
}
answers = {}
for op, case in cases.items():
    with torch_mydev.fallback_census() as census:
        result = case(x.to(device))
    torch.testing.assert_close(result.cpu(), case(x))
    answers[op] = {row.op: row.declined for row in census.rows}.get(op)
taken = x.to(device)
with torch_mydev.fallback_mode("error"):
    taken = ((taken + taken).relu() + 1.5) @ taken.reshape(3, 2)
torch.testing.assert_close(taken.cpu(), (x + x + 1.5) @ x.reshape(3, 2))
print(repr(taken), file=__import__("sys").stderr)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def declined(fork_server: ForkServer) -> dict[str, str]:
    result = fork_server.run(DECLINED, environment(MYDEV_DRIVER=PARTIAL))
    assert result.returncode == 0, result.stderr
    reasons: dict[str, str] = json.loads(result.stdout)
    return reasons


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("aten::add.Tensor", "mydev.add: driver 'discrete' takes f32, and result 0 is s64"),
        ("aten::mul.Tensor", "mydev.mul: driver 'discrete' takes no numbers, and operand 1 is one"),
        ("aten::relu", "mydev.relu: driver 'discrete' takes dense operands, and operand 0 is strided"),
        ("aten::mm", "mydev.matmul: driver 'discrete' takes f32, and result 0 is bf16"),
        ("aten::sum.dim_IntList", "mydev.sum: driver 'discrete' sums all of a dense operand only"),
        ("aten::fill_.Scalar", "mydev.fill: driver 'discrete' takes dense operands, and result 0 is strided"),
    ],
)
def test_census_says_what_was_declined(declined: dict[str, str], op: str, reason: str) -> None:
    assert declined[op] == reason


def test_an_error_says_what_was_declined(run_python: Run) -> None:
    code = """
import torch, torch_mydev
x = torch.ones(3, dtype=torch.int64, device=torch_mydev.device_name)
with torch_mydev.fallback_mode("error"):
    try:
        x + x
    except NotImplementedError as error:
        print(error)
"""
    result = run_python(code, MYDEV_DRIVER=PARTIAL)
    assert result.returncode == 0, result.stderr
    assert "(mydev.add: driver 'discrete' takes f32, and result 0 is s64)" in result.stdout


def test_the_cpu_computes_the_gradient_of_a_kernel_that_saves_less_for_it(run_python: Run) -> None:
    code = """
import torch, torch_mydev
for shape in ((), (2, 3), (2, 0, 3)):
    expected, x = (torch.full(shape, 0.5, device=d, requires_grad=True) for d in ("cpu", torch_mydev.device_name))
    with torch_mydev.fallback_census() as census:
        torch.nn.functional.logsigmoid(x).backward(torch.ones_like(x))
    torch.nn.functional.logsigmoid(expected).backward(torch.ones_like(expected))
    torch.testing.assert_close(x.grad.cpu(), expected.grad)
    print(*(row.op for row in census.rows))
"""
    result = run_python(code, MYDEV_DRIVER=CORE)
    assert result.stdout.splitlines()[1] == "aten::log_sigmoid_backward", result.stderr
    assert result.returncode == 0, result.stderr
