"""Batch norm and layer norm: values, gradients, running statistics."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_mydev
from support.parity import VIEWS, assert_gradient_parity, assert_parity, assert_same, to_device

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 2 + 1).to(dtype)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(8, 5), (6, 3, 10), (4, 70, 5, 6), (2, 3, 4, 5, 2)])
def test_batch_norm(shape: tuple[int, ...], training: bool, device: torch.device) -> None:
    channels = shape[1]

    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        mean = torch.linspace(0.5, 1.5, channels).to(x.device)
        var = torch.linspace(1, 2, channels).to(x.device)
        return F.batch_norm(x, mean, var, weight, bias, training=training)

    assert_gradient_parity(run, values(*shape), values(channels), values(channels), device=device)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("format_name", FORMATS)
def test_batch_norm_module_over_steps(format_name: str, momentum: float | None, device: torch.device) -> None:
    reference = nn.BatchNorm2d(6, momentum=momentum)
    module = copy.deepcopy(reference).to(device)
    for step in range(3):
        x = (values(4, 6, 5, 3) * (step + 1)).contiguous(memory_format=FORMATS[format_name])
        expected, actual = reference(x), module(x.to(device))
        assert_same(actual, expected, device)
        assert actual.is_contiguous(memory_format=FORMATS[format_name])
    assert_same(dict(module.state_dict()), dict(reference.state_dict()), device)


def test_running_statistics_move_in_place(device: torch.device) -> None:
    mean, var = torch.zeros(3, device=device), torch.ones(3, device=device)
    address = mean.data_ptr()
    F.batch_norm(values(50, 3).to(device), mean, var, training=True)
    assert mean.data_ptr() == address
    assert (mean.cpu() != 0).all()
    assert (var.cpu() != 1).all()


def test_one_running_statistic_without_the_other_is_refused(device: torch.device) -> None:
    for where in ("cpu", device):
        x, statistic = torch.ones(2, 3, 4, device=where), torch.ones(3, device=where)
        for statistics in ((statistic, None), (None, statistic)):
            with pytest.raises((ValueError, RuntimeError), match="running_"):
                torch.native_batch_norm(x, None, None, *statistics, True, 0.1, 1e-5)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_without_running_statistics(affine: bool, device: torch.device) -> None:
    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, weight if affine else None, None, training=True) * weight.sum()

    assert_gradient_parity(run, values(9, 4, 3), values(4), device=device, native=False)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradient_by_running_statistics_does_not_depend_on_the_input(value: float, device: torch.device) -> None:
    def gradient(where: torch.device) -> torch.Tensor:
        x = torch.linspace(-1, 1, 60).reshape(3, 4, 5)
        x[0, 1, 2] = value
        x = x.to(where).requires_grad_()
        mean, var = torch.zeros(4, device=where), torch.ones(4, device=where)
        F.batch_norm(x, mean, var, torch.arange(1.0, 5.0, device=where)).sum().backward()
        assert x.grad is not None
        return x.grad.cpu()

    torch.testing.assert_close(gradient(device), gradient(torch.device("cpu")))


def test_batch_norm_runs_natively(device: torch.device) -> None:
    x, weight = values(8, 4, 6, 6).to(device).requires_grad_(), torch.ones(4, device=device, requires_grad=True)
    mean, var = torch.zeros(4, device=device), torch.ones(4, device=device)
    with torch_mydev.fallback_mode("error"):
        F.batch_norm(x, mean, var, weight, weight, training=True).sum().backward()
        F.batch_norm(x, mean, var, weight, weight).sum().backward()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_batch_norm_in_other_types(dtype: torch.dtype, device: torch.device) -> None:
    parameter_type = torch.float64 if dtype == torch.float64 else torch.float32

    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, weight, weight, training=True)

    assert_parity(run, values(16, 3, 8, dtype=dtype), values(3, dtype=parameter_type), device=device)


HALVES = [torch.float16, torch.bfloat16]
SHAPES = {"rows": (64, 3), "planes": (16, 3, 7, 5)}


@pytest.mark.parametrize("stored", ["half", "float"])
@pytest.mark.parametrize("affine", [True, False])
# Without statistics the CPU can but train.
@pytest.mark.parametrize(("training", "tracked"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", HALVES)
def test_batch_norm_of_halves_saves_what_the_cpu_saves(
    dtype: torch.dtype, shape: str, training: bool, tracked: bool, affine: bool, stored: str, device: torch.device
) -> None:
    type_ = dtype if stored == "half" else torch.float32
    x = values(*SHAPES[shape], dtype=dtype) + 5  # whose mean rounds
    weight, bias = (values(3).to(type_), values(3).to(type_) - 1) if affine else (None, None)
    mean, var = (values(3).to(type_), values(3).abs().to(type_) + 1) if tracked else (None, None)

    def run(*operands: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        x, weight, bias, mean, var = (t if t is None else t.clone() for t in operands)
        out, saved_mean, saved_invstd = torch.native_batch_norm(x, weight, bias, mean, var, training, 0.1, 1e-5)
        return out, saved_mean, saved_invstd, mean, var

    operands = x, weight, bias, mean, var
    expected = run(*operands)
    with torch_mydev.fallback_mode("error"):
        actual = run(*to_device(operands, device))
    # The CPU's statistics are themselves some steps of the half type off.
    steps = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 8 * torch.finfo(dtype).eps}
    torch.testing.assert_close(to_device(actual, torch.device("cpu")), expected, **steps)
    _, saved_mean, saved_invstd, _, _ = expected
    backward = torch.ops.aten.native_batch_norm_backward

    def differentiate(*operands: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        return backward(*operands, training, 1e-5, [True, True, True])

    gradients = x.flip(0), x, weight, mean, var, saved_mean, saved_invstd
    with torch_mydev.fallback_mode("error"):
        actual = differentiate(*to_device(gradients, device))
    torch.testing.assert_close(to_device(actual, torch.device("cpu")), differentiate(*gradients), **steps)


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("dtype", HALVES)
def test_other_batch_norms_of_halves_have_the_cpus_types(
    dtype: torch.dtype, tracked: bool, device: torch.device
) -> None:
    def run(x: torch.Tensor, vector: torch.Tensor) -> Any:
        mean, var = (vector.clone(), vector.clone()) if tracked else (None, None)
        statistics = torch.batch_norm_update_stats(x, mean, var, 0.1)
        if not tracked:
            return statistics, torch.ops.aten._native_batch_norm_legit.no_stats(x, vector, None, True, 0.1, 1e-5)
        return (
            statistics,
            torch._native_batch_norm_legit(x, vector, vector, mean, var, True, 0.1, 1e-5),
            torch.ops.aten._batch_norm_with_update(x, vector, vector, mean, var, 0.1, 1e-5),
            torch.ops.aten._batch_norm_no_update(x, vector, vector, mean, var, 0.1, 1e-5),
        )

    operands = values(16, 3, 8, dtype=dtype), values(3, dtype=dtype).abs()
    tolerance = 8 * torch.finfo(dtype).eps
    actual = to_device(run(*to_device(operands, device)), torch.device("cpu"))
    torch.testing.assert_close(actual, run(*operands), rtol=tolerance, atol=tolerance)


def test_batch_norm_of_mixed_statistics_raises_as_on_cpu(device: torch.device) -> None:
    def run(place: torch.device) -> None:
        x, weight = torch.ones(4, 3, dtype=torch.bfloat16, device=place), torch.ones(3, device=place)
        F.batch_norm(x, weight.bfloat16(), weight.bfloat16(), weight, weight, training=True)

    with pytest.raises(RuntimeError) as expected:
        run(torch.device("cpu"))
    with pytest.raises(RuntimeError) as actual:
        run(device)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_statistics_about_a_large_mean_are_accurate(device: torch.device) -> None:
    x = values(64, 30, 20) + 1e5
    for shape, dims in ((x, (0, 2)), (x[:, :, 0].contiguous(), (0,))):
        _, mean, invstd = torch.native_batch_norm(shape.to(device), None, None, None, None, True, 0.1, 1e-5)
        exact = shape.double()
        torch.testing.assert_close(mean.cpu(), exact.mean(dims).float())
        torch.testing.assert_close(invstd.cpu(), (exact.var(dims, correction=0) + 1e-5).rsqrt().float())


def test_batch_norm_of_a_strided_input(device: torch.device) -> None:
    assert_gradient_parity(
        lambda x: F.batch_norm(x.transpose(0, 1)[:, ::2], None, None, training=True),
        values(6, 5, 4),
        device=device,
        native=False,
    )


def test_batch_norm_of_one_value_per_channel_raises(device: torch.device) -> None:
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        nn.BatchNorm1d(3).to(device)(torch.ones(1, 3, device=device))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    ("shape", "normal"), [((5, 7), (7,)), ((2, 40, 1500), (1500,)), ((3, 4, 5, 6), (5, 6)), ((6,), (6,))]
)
def test_layer_norm(shape: tuple[int, ...], normal: tuple[int, ...], affine: bool, device: torch.device) -> None:
    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        if affine:
            return F.layer_norm(x, normal, weight, bias)
        return F.layer_norm(x, normal) + weight + bias

    assert_gradient_parity(run, values(*shape), values(*normal), values(*normal) - 1, device=device, native=False)


def test_layer_norm_runs_natively(device: torch.device) -> None:
    assert_gradient_parity(
        lambda x, w, b: F.layer_norm(x, (33,), w, b), values(20, 33), values(33), values(33), device=device
    )


@pytest.mark.parametrize("view", VIEWS)
def test_layer_norm_of_any_layout(view: str, device: torch.device) -> None:
    assert_parity(lambda x: F.layer_norm(VIEWS[view](x), VIEWS[view](x).shape[-1:]), values(6, 5, 8), device=device)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_layer_norm_in_other_types(dtype: torch.dtype, device: torch.device) -> None:
    w = values(64, dtype=dtype)
    assert_parity(lambda x, w: F.layer_norm(x, (64,), w, w), values(10, 64, dtype=dtype), w, device=device)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_layer_norm_of_nothing(shape: tuple[int, ...], device: torch.device) -> None:
    assert_parity(lambda x: F.layer_norm(x, x.shape[-1:]), torch.empty(shape), device=device, native=False)


def test_layer_norm_of_a_wrong_shape_raises(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(torch.ones(2, 3, device=device), (4,))


# --- batch normalization over several ranks' shares of a batch, as torch.nn.SyncBatchNorm does it --------------------


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_of_a_batch_are_normalized_like_the_whole(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm2d(4) if len(shape) == 4 else torch.nn.BatchNorm1d(4)
    norm = norm.to(dtype)
    with torch.no_grad():
        norm.weight.uniform_()
        norm.bias.uniform_()
    whole = torch.randn(shape, dtype=dtype, requires_grad=True)
    seed = torch.randn(shape, dtype=dtype)
    running_mean, running_var = norm.running_mean.to(device), norm.running_var.to(device)
    weight, bias = norm.weight.detach().to(device), norm.bias.detach().to(device)
    expected = norm(whole)
    expected.backward(seed)

    shares = whole.detach().to(device).split([2, 3])
    seeds = seed.to(device).split([2, 3])
    with torch_mydev.fallback_mode("error"):
        statistics = [torch.batch_norm_stats(share, norm.eps) for share in shares]
        means, invstds = (torch.stack(values) for values in zip(*statistics, strict=True))
        counts = torch.tensor([share.numel() / 4 for share in shares], dtype=dtype, device=device)
        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            shares[0], means, invstds, running_mean, running_var, norm.momentum, norm.eps, counts
        )
        outputs = [torch.batch_norm_elemt(share, weight, bias, mean, invstd, norm.eps) for share in shares]
        sums = [
            torch.batch_norm_backward_reduce(seed, share, mean, invstd, weight, True, True, True)
            for seed, share in zip(seeds, shares, strict=True)
        ]
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = (sum(values) for values in zip(*sums, strict=True))
        gradients = [
            torch.batch_norm_backward_elemt(seed, share, mean, invstd, weight, sum_dy, sum_dy_xmu, counts.int())
            for seed, share in zip(seeds, shares, strict=True)
        ]
    torch.testing.assert_close(torch.cat(outputs).cpu(), expected.detach())
    torch.testing.assert_close(torch.cat(gradients).cpu(), whole.grad)
    torch.testing.assert_close(grad_weight.cpu(), norm.weight.grad)
    torch.testing.assert_close(grad_bias.cpu(), norm.bias.grad)
    torch.testing.assert_close(running_mean.cpu(), norm.running_mean)
    torch.testing.assert_close(running_var.cpu(), norm.running_var)
