"""torch.autocast and GradScaler on the device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

BOTH = [torch.float16, torch.bfloat16]


def operand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes))).to("mydev")


LOWER_PRECISION: dict[str, Callable[[], torch.Tensor]] = {
    "mm": lambda: operand(3, 3) @ operand(3, 3),
    "mv": lambda: operand(3, 3) @ operand(3),
    "bmm": lambda: torch.bmm(operand(2, 3, 3), operand(2, 3, 3)),
    "addmm": lambda: torch.addmm(operand(3, 3), operand(3, 3), operand(3, 3)),
    "baddbmm": lambda: torch.baddbmm(operand(2, 3, 3), operand(2, 3, 3), operand(2, 3, 3)),
    "linear": lambda: functional.linear(operand(3, 3), operand(3, 3)),
    "matmul": lambda: torch.matmul(operand(2, 2, 3, 3), operand(3, 3)),
    "einsum": lambda: torch.einsum("ij,jk->ik", operand(3, 3), operand(3, 3)),
    "conv1d": lambda: functional.conv1d(operand(1, 2, 5), operand(2, 2, 3)),
    "conv2d": lambda: functional.conv2d(operand(1, 2, 5, 5), operand(2, 2, 3, 3)),
    "conv_transpose2d": lambda: functional.conv_transpose2d(operand(1, 2, 5, 5), operand(2, 2, 3, 3)),
    "prelu": lambda: functional.prelu(operand(2, 3), operand(1)),
    "scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(
        operand(1, 2, 4, 8), operand(1, 2, 4, 8), operand(1, 2, 4, 8)
    ),
}

FLOAT32: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs() + 1),
    "pow": lambda x: x**2,
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "softplus": functional.softplus,
    "layer_norm": lambda x: functional.layer_norm(x, (3,)),
    "rms_norm": lambda x: functional.rms_norm(x, (3,)),
    "mse_loss": lambda x: functional.mse_loss(x, x),
    "l1_loss": lambda x: functional.l1_loss(x, x),
    "softmax": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, 0),
    "sum": torch.sum,
    "sum_dim": lambda x: x.sum(0),
    "prod": torch.prod,
    "cumsum": lambda x: x.cumsum(0),
    "norm": torch.norm,
    "dist": lambda x: torch.dist(x, x + 1),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
}


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", LOWER_PRECISION)
def test_runs_in_the_lower_precision(name: str, dtype: torch.dtype) -> None:
    with torch.autocast("mydev", dtype=dtype):
        result = LOWER_PRECISION[name]()
    assert result.dtype == dtype
    assert result.device.type == "mydev"


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", FLOAT32)
def test_runs_in_float32(name: str, dtype: torch.dtype) -> None:
    with torch.autocast("mydev", dtype=dtype):
        result = FLOAT32[name](operand(3, 3).to(dtype))
    assert result.dtype == torch.float32


def test_keeps_the_dtype_that_was_asked_for() -> None:
    with torch.autocast("mydev", dtype=torch.bfloat16):
        assert operand(3).bfloat16().sum(dtype=torch.float64).dtype == torch.float64
        assert operand(3).bfloat16().softmax(0, dtype=torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: torch.addcmul(a, b, b),
        lambda a, b: torch.atan2(a, b),
        lambda a, b: torch.dot(a, b),
        lambda a, b: torch.tensordot(a, b, 1),
    ],
    ids=["addcmul", "atan2", "dot", "tensordot"],
)
def test_promotes_to_the_widest_operand(call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    with torch.autocast("mydev", dtype=torch.bfloat16):
        assert call(operand(3), operand(3).bfloat16()).dtype == torch.float32


@pytest.mark.parametrize(
    "call",
    [torch.relu, torch.sigmoid, torch.abs, lambda x: x + x, lambda x: x.sort().values, lambda x: torch.cat([x, x])],
    ids=["relu", "sigmoid", "abs", "add", "sort", "cat"],
)
def test_other_ops_are_left_alone(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with torch.autocast("mydev", dtype=torch.bfloat16):
        assert call(operand(3)).dtype == torch.float32
        assert call(operand(3).bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", BOTH)
def test_values_are_those_of_the_lower_precision(dtype: torch.dtype) -> None:
    a, b = operand(8, 8), operand(8, 8)
    with torch.autocast("mydev", dtype=dtype):
        result = a @ b
    torch.testing.assert_close(result.cpu(), a.cpu().to(dtype) @ b.cpu().to(dtype))


def test_default_dtype_is_that_of_accelerators() -> None:
    with torch.autocast("mydev"):
        assert torch.get_autocast_dtype("mydev") == torch.float16
        assert (operand(3, 3) @ operand(3, 3)).dtype == torch.float16


def test_unsupported_dtype_warns_and_disables() -> None:
    with pytest.warns(UserWarning, match="not support"), torch.autocast("mydev", dtype=torch.float64):
        assert (operand(3, 3) @ operand(3, 3)).dtype == torch.float32


def test_nests_and_switches_off() -> None:
    a = operand(3, 3)
    with torch.autocast("mydev", dtype=torch.bfloat16):
        with torch.autocast("mydev", enabled=False):
            assert (a @ a).dtype == torch.float32
        assert (a @ a).dtype == torch.bfloat16
    assert (a @ a).dtype == torch.float32


def test_cpu_autocast_does_not_reach_the_device() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (operand(3, 3) @ operand(3, 3)).dtype == torch.float32


def test_casts_of_weights_are_cached_within_the_block() -> None:
    weight = operand(3, 3).requires_grad_()
    with torch.autocast("mydev", dtype=torch.bfloat16):
        (operand(3, 3) @ weight + operand(3, 3) @ weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_binary_cross_entropy_is_refused() -> None:
    probabilities = torch.rand(3, device="mydev")
    with torch.autocast("mydev"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        functional.binary_cross_entropy(probabilities, probabilities)
    with torch.autocast("mydev", enabled=False):
        functional.binary_cross_entropy(probabilities, probabilities)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_grad_scaler_trains_as_on_the_cpu(optimizer: type[torch.optim.Optimizer]) -> None:
    def train(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2).to(device)
        steps = optimizer(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=128.0)
        data = torch.randn(8, 4).to(device)
        for _ in range(3):
            steps.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = model(data).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(steps)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(steps)
            scaler.update()
        return model.weight.detach().cpu()

    torch.testing.assert_close(train("mydev"), train("cpu"))


def test_grad_scaler_skips_a_step_with_infinite_gradients() -> None:
    parameter = torch.ones(2, device="mydev", requires_grad=True)
    steps = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("mydev", init_scale=8.0)
    scaler.scale((parameter * float("inf")).sum()).backward()
    scaler.step(steps)
    scaler.update()
    assert parameter.tolist() == [1.0, 1.0]
    assert scaler.get_scale() == 4.0
