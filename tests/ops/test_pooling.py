"""Two-dimensional pooling on the device: values, indices, strides, gradients and errors are the CPU's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from torch_mydev import fallback_census, fallback_mode

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]

# name: function of torch.nn.functional, its options
POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "max_halves": ("max_pool2d", {"kernel_size": 2}),
    "max_overlapping": ("max_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1}),
    "max_dilated": ("max_pool2d", {"kernel_size": (2, 3), "stride": 1, "dilation": (2, 3)}),
    "max_ceiled": ("max_pool2d", {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    "average_halves": ("avg_pool2d", {"kernel_size": 2}),
    "average_overlapping": ("avg_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1}),
    "average_without_padding": (
        "avg_pool2d",
        {"kernel_size": 3, "stride": (2, 3), "padding": 1, "count_include_pad": False},
    ),
    "average_ceiled": ("avg_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    "average_divided": ("avg_pool2d", {"kernel_size": 3, "stride": 2, "divisor_override": 5}),
    "adaptive": ("adaptive_avg_pool2d", {"output_size": (4, 3)}),
    "adaptive_to_one": ("adaptive_avg_pool2d", {"output_size": 1}),
    "adaptive_upwards": ("adaptive_avg_pool2d", {"output_size": (20, 30)}),
}
# Their operators of our own; to one element core takes the mean.
OPERATORS = {
    "max_pool2d": "aten::max_pool2d_with_indices",
    "avg_pool2d": "aten::avg_pool2d",
    "adaptive_avg_pool2d": "aten::_adaptive_avg_pool2d",
}
SHAPES = {"batch": (2, 5, 12, 13), "image": (5, 12, 13), "wide": (1, 2, 9, 70), "many_channels": (2, 70, 9, 8)}


def pool(name: str, x: Tensor) -> Tensor:
    function, options = POOLS[name]
    result: Tensor = getattr(F, function)(x, **options)
    return result


def image(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(shape).to(dtype)


def same_layout(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected)
    assert actual.stride() == expected.stride()


def check_gradient(device: torch.device, name: str, x: Tensor) -> None:
    on_device = x.to(device).requires_grad_()
    x.requires_grad_()
    expected, actual = pool(name, x), pool(name, on_device)
    gradient = torch.randn(expected.shape).to(x.dtype)
    expected.backward(gradient)
    actual.backward(gradient.to(device))
    torch.testing.assert_close(on_device.grad.cpu(), x.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((20, 70), {"kernel_size": 3, "stride": 1, "padding": 1}),
        ((20, 71), {"kernel_size": (8, 16), "stride": (1, 4), "padding": (4, 8)}),
        ((20, 71), {"kernel_size": (9, 3), "stride": 2, "padding": (3, 1)}),
        ((20, 71), {"kernel_size": (3, 17), "stride": 2, "padding": (1, 8)}),
        ((20, 71), {"kernel_size": 3, "stride": (2, 5), "padding": 1}),
        ((3, 600), {"kernel_size": 3, "stride": 1, "padding": 1}),
        ((3, 1200), {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1)}),
        ((5, 3), {"kernel_size": 2, "stride": 3, "padding": 1}),
        ((5, 7), {"kernel_size": (1, 3), "stride": (4, 2), "ceil_mode": True}),
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [2, 40])
def test_maxima_of_windows_of_many_kinds(
    device: torch.device, size: tuple[int, int], options: dict[str, Any], dtype: torch.dtype, channels: int
) -> None:
    """Rows are kept from window to window, and columns split by the stride; where they are too many, neither. Narrow
    images of many channels are computed channels-last."""
    torch.manual_seed(0)
    x = torch.randint(-20, 20, (3, channels, *size)).to(dtype)  # with equals
    x[0, 0, 1] = float("nan")
    x[0, 1] = float("-inf")
    x[1, 0, 2, 1] = float("inf")
    expected = F.max_pool2d(x, **options, return_indices=True)
    actual = F.max_pool2d(x.to(device), **options, return_indices=True)
    assert [t.stride() for t in actual] == [t.stride() for t in expected]
    torch.testing.assert_close([t.cpu() for t in actual], list(expected), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", POOLS)
def test_forward_agrees_with_cpu(device: torch.device, name: str, shape: str, dtype: torch.dtype) -> None:
    x = image(SHAPES[shape], dtype)
    on_device = x.to(device)
    with fallback_mode("error", OPERATORS[POOLS[name][0]]):
        actual = pool(name, on_device)
    same_layout(actual, pool(name, x))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", POOLS)
def test_gradient_agrees_with_cpu(device: torch.device, name: str, shape: str) -> None:
    with fallback_mode("error", OPERATORS[POOLS[name][0]] + "_backward"):
        check_gradient(device, name, image(SHAPES[shape]))


@pytest.mark.parametrize("name", POOLS)
def test_channels_last_agrees_with_cpu(device: torch.device, name: str) -> None:
    x = image(SHAPES["many_channels"]).contiguous(memory_format=torch.channels_last)
    same_layout(pool(name, x.to(device)), pool(name, x))
    check_gradient(device, name, x)


@pytest.mark.parametrize("layout", ["sliced", "stepped", "repeated", "transposed"])
@pytest.mark.parametrize("name", ["max_overlapping", "average_overlapping", "adaptive"])
def test_any_strides_agree_with_cpu(device: torch.device, name: str, layout: str) -> None:
    views = {
        "sliced": lambda t: t[:, 1:4, 2:, :9],
        "stepped": lambda t: t[:, :, ::2, ::2],
        "repeated": lambda t: t[:, :1].expand(-1, 6, -1, -1),
        "transposed": lambda t: t.transpose(2, 3),
    }
    x = image((2, 5, 14, 15))
    torch.testing.assert_close(pool(name, views[layout](x.to(device))).cpu(), pool(name, views[layout](x)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_max_indices_agree_with_cpu(device: torch.device, dtype: torch.dtype) -> None:
    x = image((2, 3, 12, 13), dtype)
    x[0, 0] = -torch.inf
    x[1, 1, 5, 5] = torch.nan
    expected = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    actual = F.max_pool2d(x.to(device), 3, 2, 1, return_indices=True)
    torch.testing.assert_close(actual[0].cpu(), expected[0], equal_nan=True)
    torch.testing.assert_close(actual[1].cpu(), expected[1], rtol=0, atol=0)


def test_other_dtypes_run_the_cpu_kernel(device: torch.device) -> None:
    x = torch.arange(36).reshape(1, 1, 6, 6)
    with fallback_census() as census:
        actual = F.max_pool2d(x.to(device), 2)
    same_layout(actual, F.max_pool2d(x, 2))
    assert census.total_calls == 1


def test_empty_batch_runs_the_cpu_kernel(device: torch.device) -> None:
    x = torch.empty(0, 3, 6, 6)
    same_layout(F.max_pool2d(x.to(device), 2), F.max_pool2d(x, 2))


def test_out_is_resized_and_filled(device: torch.device) -> None:
    x = image((2, 3, 8, 8))
    out = torch.empty(0, device=device)
    torch._C._nn.avg_pool2d(x.to(device), 2, out=out)
    same_layout(out, F.avg_pool2d(x, 2))


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("max_pool2d", {"kernel_size": 2, "padding": 2}),
        ("max_pool2d", {"kernel_size": 20}),
        ("max_pool2d", {"kernel_size": 2, "stride": 0}),
        ("avg_pool2d", {"kernel_size": 2, "padding": 2}),
        ("avg_pool2d", {"kernel_size": 20}),
        ("avg_pool2d", {"kernel_size": 2, "divisor_override": 0}),
        ("adaptive_avg_pool2d", {"output_size": (-1, 2)}),
    ],
    ids=["max_padding", "max_kernel", "max_stride", "average_padding", "average_kernel", "divisor", "adaptive_size"],
)
def test_wrong_operands_raise_what_the_cpu_raises(device: torch.device, function: str, options: dict[str, Any]) -> None:
    x = image((2, 3, 8, 8))
    with pytest.raises(RuntimeError) as expected:
        getattr(F, function)(x, **options)
    with pytest.raises(RuntimeError) as actual:
        getattr(F, function)(x.to(device), **options)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]
