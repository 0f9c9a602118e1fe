"""Losses and their gradients: cross entropy, negative log likelihood, squared error, binary cross entropy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from support.parity import assert_gradient_parity, assert_parity, raises_in_a_kernel

REDUCTIONS = ["none", "mean", "sum"]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def targets(*shape: int, classes: int) -> torch.Tensor:
    return torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("input_shape", "target_shape"), [((5,), ()), ((8, 5), (8,)), ((4, 5, 3), (4, 3)), ((2, 5, 3, 4), (2, 3, 4))]
)
def test_nll_loss(
    input_shape: tuple[int, ...], target_shape: tuple[int, ...], weighted: bool, reduction: str, device: torch.device
) -> None:
    weight = torch.rand(5, generator=torch.Generator().manual_seed(2)) if weighted else None

    def run(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        w = None if weight is None else weight.to(x.device)
        return F.nll_loss(x, target, weight=w, reduction=reduction)

    assert_gradient_parity(run, values(*input_shape), targets(*target_shape, classes=5), device=device)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_nll_loss_ignores_an_index(ignore_index: int, reduction: str, device: torch.device) -> None:
    target = targets(9, classes=4)
    target[3] = ignore_index
    assert_gradient_parity(
        lambda x, t: F.nll_loss(x, t, ignore_index=ignore_index, reduction=reduction),
        values(9, 4),
        target,
        device=device,
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_cross_entropy_in_other_types(dtype: torch.dtype, device: torch.device) -> None:
    assert_gradient_parity(F.cross_entropy, values(16, 10, dtype=dtype), targets(16, classes=10), device=device)


def test_cross_entropy_of_a_strided_input(device: torch.device) -> None:
    assert_gradient_parity(
        lambda x, t: F.cross_entropy(x.t()[:, ::2], t), values(10, 6), targets(6, classes=5), device=device
    )


def test_cross_entropy_of_all_ignored_is_nan(device: torch.device) -> None:
    assert_parity(F.cross_entropy, values(3, 4), torch.full((3,), -100), device=device)


@pytest.mark.parametrize("target", [4, -1])
def test_target_out_of_bounds_raises_index_error(target: int, device: torch.device) -> None:
    x, t = values(3, 4).to(device), torch.tensor([0, target, 1], device=device)
    with raises_in_a_kernel(IndexError, f"Target {target} is out of bounds"):
        F.nll_loss(x, t).cpu()


@pytest.mark.parametrize(
    ("x", "target"),
    [(torch.zeros(3, 4), torch.zeros(2, dtype=torch.long)), (torch.zeros(3, 4), torch.zeros(3, dtype=torch.int16))],
)
def test_wrong_targets_raise_as_on_cpu(x: torch.Tensor, target: torch.Tensor, device: torch.device) -> None:
    with pytest.raises((RuntimeError, ValueError)) as expected:
        F.nll_loss(x, target)
    with pytest.raises(type(expected.value)) as actual:
        F.nll_loss(x.to(device), target.to(device))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_losses_of_images_refuse_what_are_none(shape: tuple[int, ...], device: torch.device) -> None:
    x, target = torch.zeros(shape), torch.zeros(shape[:-1], dtype=torch.long)
    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match="only batches of spatial"):
            torch.ops.aten.nll_loss2d(x.to(where), target.to(where))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (130, 200)])
def test_mse_loss(shape: tuple[int, ...], reduction: str, device: torch.device) -> None:
    assert_gradient_parity(
        lambda x, t: F.mse_loss(x, t, reduction=reduction),
        values(*shape),
        values(*shape) + 1,
        device=device,
        native=False,
    )


def test_mse_loss_runs_natively(device: torch.device) -> None:
    assert_parity(F.mse_loss, values(30, 4), values(30, 4) * 2, device=device)


def test_mse_loss_of_strided_operands(device: torch.device) -> None:
    assert_parity(lambda x, t: F.mse_loss(x.t(), t[:, 1:5]), values(4, 6), values(6, 9), device=device)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy(weighted: bool, reduction: str, device: torch.device) -> None:
    weight = torch.rand(6, generator=torch.Generator().manual_seed(2)) if weighted else None

    def run(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        w = None if weight is None else weight.to(x.device)
        return F.binary_cross_entropy(torch.sigmoid(x), target, weight=w, reduction=reduction)

    target: Any = (values(5, 6) > 0).float()
    assert_gradient_parity(run, values(5, 6), target, device=device, native=False)


def test_binary_cross_entropy_of_certain_predictions(device: torch.device) -> None:
    assert_parity(
        lambda x, t: F.binary_cross_entropy(x, t, reduction="none"),
        torch.tensor([0.0, 1.0, 0.0, 1.0]),
        torch.tensor([0.0, 1.0, 1.0, 0.0]),
        device=device,
    )


def test_binary_cross_entropy_outside_the_unit_interval_raises(device: torch.device) -> None:
    with raises_in_a_kernel(RuntimeError, "should be between 0 and 1"):
        F.binary_cross_entropy(torch.tensor([1.5], device=device), torch.ones(1, device=device)).cpu()
    with raises_in_a_kernel(RuntimeError, "all elements of target should be between 0 and 1"):
        F.binary_cross_entropy(torch.ones(1, device=device), torch.tensor([1.5], device=device)).cpu()


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_logsigmoid_under_nested_vmap(dim: int, device: torch.device) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(torch.vmap(F.logsigmoid), in_dims=dim, out_dims=dim)(x)

    x = torch.linspace(-3, 3, 24).view(2, 3, 4)
    assert_parity(run, x, device=device)
    assert_gradient_parity(run, x, device=device)
