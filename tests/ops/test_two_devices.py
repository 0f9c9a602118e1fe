"""Operands on two devices: each operator names itself, both devices, and the operand that is elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

#: Calls with two operands: `x` is on the device, `y` elsewhere; both have 4 rows and columns. The schema names them.
CALLS: dict[str, tuple[Callable[[Tensor, Tensor], object], str, str]] = {
    "add": (lambda x, y: x + y, "aten::add", "other"),
    "add_": (lambda x, y: x.clone().add_(y), "aten::add", "other"),
    "sub, strided": (lambda x, y: x.t() - y, "aten::sub", "other"),
    "mul by a row": (lambda x, y: x * y[0], "aten::mul", "other"),
    "maximum": (torch.maximum, "aten::maximum", "other"),
    "comparison": (lambda x, y: x < y, "aten::lt", "other"),
    "where": (lambda x, y: torch.where(x > 0, x, y), "aten::where", "other"),
    "where, condition": (lambda x, y: torch.where(y > 0, x, x), "aten::where", "condition"),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y), "aten::addcmul", "tensor2"),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.5), "aten::lerp", "end"),
    "mm": (lambda x, y: x @ y, "aten::mm", "mat2"),
    "addmm": (lambda x, y: torch.addmm(x, y, x), "aten::addmm", "mat1"),
    "linear": (lambda x, y: F.linear(x, y, x[0]), "aten::addmm", "mat2"),
    "bmm": (lambda x, y: torch.bmm(x[None], y[None]), "aten::bmm", "mat2"),
    "mv": (lambda x, y: x @ y[0], "aten::(mv|addmv)", "vec"),
    "dot": (lambda x, y: torch.dot(x[0], y[0]), "aten::dot", "tensor"),
    "cat": (lambda x, y: torch.cat([x, y]), "aten::cat", "tensors"),
    "stack": (lambda x, y: torch.stack([x, y]), "aten::(stack|cat)", "tensors"),
    "gather": (lambda x, y: x.gather(0, y.long().abs() % 4), "aten::gather", "index"),
    "scatter": (lambda x, y: x.scatter(0, x.long().abs() % 4, y), "aten::scatter", "src"),
    "index_select": (lambda x, y: x.index_select(0, y[0].long().abs() % 4), "aten::index_select", "index"),
    "masked_fill": (lambda x, y: x.masked_fill(y > 0, 1.0), "aten::(masked_fill|where)", "(mask|condition|other)"),
    "embedding": (lambda x, y: F.embedding(y.long().abs() % 4, x), "aten::embedding", "indices"),
    "layer_norm": (lambda x, y: F.layer_norm(x, (4,), y[0]), "aten::native_layer_norm", "weight"),
    "rms_norm": (lambda x, y: F.rms_norm(x, (4,), y[0]), "aten::_fused_rms_norm", "weight"),
    "batch_norm": (lambda x, y: F.batch_norm(x, y[0], y[1]), "aten::native_batch_norm", "running_mean"),
    "convolution": (lambda x, y: F.conv1d(x[None], y[:, :, None]), "aten::convolution", "weight"),
    "cross_entropy": (lambda x, y: F.cross_entropy(x, y[0].long().abs() % 4), "aten::nll_loss_forward", "target"),
    "mse_loss": (F.mse_loss, "aten::mse_loss", "target"),
    "cdist": (torch.cdist, "aten::_cdist_forward", "x2"),
    "searchsorted": (lambda x, y: torch.searchsorted(x[0].sort().values, y[0]), "aten::searchsorted", "self"),
    "foreach": (lambda x, y: torch._foreach_add([x], [y]), "aten::add", "other"),
}


def refuses(name: str, device: torch.device, elsewhere: torch.device) -> None:
    """Checks that the call is refused. The error expects the device that comes first, whichever of the two it is."""
    call, operator, operand = CALLS[name]
    x = torch.arange(16.0, device=device).view(4, 4)
    y = torch.arange(16.0, device=elsewhere).view(4, 4)
    form = (
        rf"^{operator}\S*: expected all tensors to be on the same device, but found at least two devices, "
        rf"({x.device} and {y.device}: operand '{operand}' is on {y.device}|"
        rf"{y.device} and {x.device}: operand '\w+' is on {x.device}); move one of them with \.to\(\)"
    )
    with pytest.raises(RuntimeError, match=form):
        call(x, y)


@pytest.mark.parametrize("name", CALLS)
def test_an_operand_on_the_cpu(name: str, device: torch.device) -> None:
    refuses(name, device, torch.device("cpu"))


@pytest.mark.devices(2)
@pytest.mark.parametrize("name", CALLS)
def test_an_operand_on_another_device(name: str) -> None:
    refuses(name, torch.device("mydev", 0), torch.device("mydev", 1))


@pytest.mark.parametrize(
    ("call", "operand"),
    [
        (lambda x, y: y + x, "self"),
        (lambda x, y: y @ x, "self"),
        (lambda x, y: torch.where(x > 0, y, x), "self"),
        (lambda x, y: F.rms_norm(y, (2,), x[0]), "input"),
        (lambda x, y: torch.add(x, x, out=y), "out"),
        (lambda x, y: torch.mm(x, x, out=y), "out"),
    ],
)
def test_the_first_operand_or_the_result_on_the_cpu(
    call: Callable[[Tensor, Tensor], object], operand: str, device: torch.device
) -> None:
    with pytest.raises(RuntimeError, match=f"two devices, mydev:0 and cpu: operand '{operand}' is on cpu; move one"):
        call(torch.ones(2, 2, device=device), torch.ones(2, 2))


def test_index_add_names_its_source(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=r"operand 'source' is on cpu|\(source\) cpu"):  # PyTorch's own check
        torch.ones(4, device=device).index_add(0, torch.arange(4, device=device), torch.ones(4))


def test_a_number_on_the_cpu_is_a_number(device: torch.device) -> None:
    assert (torch.ones(2, device=device) * torch.tensor(3.0)).tolist() == [3, 3]
