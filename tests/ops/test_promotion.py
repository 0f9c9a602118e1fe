"""Pointwise operators against the CPU: layouts that combine, dtypes that promote, numbers beside tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from support.pointwise_operands import DTYPES, LAYOUTS, check, values

COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(LAYOUTS[:6], LAYOUTS[:6])))
@pytest.mark.parametrize("name", ["add", "lt"])
def test_layouts_combine(device: torch.device, name: str, left: Any, right: Any) -> None:
    check(device, getattr(torch, name), left(torch.float32, 0), right(torch.float32, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_unary_function_of_any_layout(device: torch.device, layout: Any) -> None:
    check(device, torch.exp, layout(torch.float32, 0))


def test_channels_last_stays_channels_last(device: torch.device) -> None:
    image = values(2, 3, 8, 9).to(memory_format=torch.channels_last)
    moved = image.to(device)
    result = moved + moved
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert_close(result.cpu(), image + image)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(DTYPES, DTYPES)), ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "eq"])
def test_dtypes_promote(device: torch.device, name: str, left: torch.dtype, right: torch.dtype) -> None:
    check(device, getattr(torch, name), values(50, dtype=left), values(50, dtype=right, seed=1), native=False)


@pytest.mark.parametrize("number", [2, 2.5, True, -1, 300, 1e20, 0.1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [torch.add, torch.mul, lambda a, n: n - a, lambda a, n: n / a], ids=range(4))
def test_number_beside_a_tensor(
    device: torch.device, function: Callable[..., torch.Tensor], dtype: torch.dtype, number: float
) -> None:
    tensor = values(50, dtype=dtype)
    try:
        function(tensor, number)
    except RuntimeError as error:
        with pytest.raises(type(error)):
            function(tensor.to(device), number)
    else:
        check(device, function, tensor, number, native=False)


@pytest.mark.parametrize("number", [2, 2.5, -1, 300, 0.1, float("nan")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison_with_a_number(device: torch.device, name: str, dtype: torch.dtype, number: float) -> None:
    tensor = values(50, dtype=dtype)
    try:
        getattr(torch, name)(tensor, number)
    except RuntimeError as error:
        with pytest.raises(type(error)):
            getattr(torch, name)(tensor.to(device), number)
    else:
        check(device, getattr(torch, name), tensor, number, native=False)


@pytest.mark.parametrize("scalar", [torch.tensor(2.5), torch.tensor(3), torch.tensor(2.0, dtype=torch.float64)])
def test_cpu_scalar_tensor_is_an_operand(device: torch.device, scalar: torch.Tensor) -> None:
    tensor = values(50)
    assert_close((tensor.to(device) * scalar).cpu(), tensor * scalar)
    assert_close((scalar - tensor.to(device)).cpu(), scalar - tensor)


def test_zero_dim_tensor_with_cpu_scalar_promotes_as_on_the_cpu(device: torch.device) -> None:
    a, b = torch.tensor(1.5), torch.tensor(2.0, dtype=torch.float64)
    assert (a.to(device) + b).dtype == (a + b).dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (50,)], ids=str)
@pytest.mark.parametrize(
    "scalar", [torch.tensor(100_001), torch.tensor(2049.0), torch.tensor(2049.0, dtype=torch.float64)], ids=str
)
@pytest.mark.parametrize("function", [torch.mul, torch.div])
def test_one_element_beside_half_precision_is_not_rounded(
    device: torch.device,
    function: Callable[..., torch.Tensor],
    scalar: torch.Tensor,
    shape: tuple[int, ...],
    dtype: torch.dtype,
) -> None:
    tensor = values(50, dtype=dtype)[0] if shape == () else values(50, dtype=dtype)[: shape[0]]
    check(device, function, tensor, scalar)
    in_place, expected = tensor.to(device), tensor.clone()
    if torch.result_type(tensor, scalar) == dtype:
        assert_close(getattr(in_place, f"{function.__name__}_")(scalar.to(device)).cpu(), function(expected, scalar))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_mean_of_more_halves_than_the_type_counts(device: torch.device, dtype: torch.dtype) -> None:
    x = torch.rand(100_000, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[3] = torch.nan
    assert_close(torch.nanmean(x.to(device)).cpu(), torch.nanmean(x))


@pytest.mark.parametrize("sizes", [(7,), (3, 4)], ids=str)
@pytest.mark.parametrize("alpha", [1e-9, 1.0004, 65500.0])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha_is_rounded_to_half_precision(
    device: torch.device, name: str, alpha: float, sizes: tuple[int, ...]
) -> None:
    """An alpha that rounds to 0 makes infinity not a number."""
    left = torch.zeros(sizes, dtype=torch.float16)
    for right in (torch.full(sizes, float("inf")).half(), torch.full(sizes, 1000.0).half()):
        expected = getattr(torch, name)(left, right, alpha=alpha)
        wide = torch.stack([right.to(device)] * 2, -1)[..., 0]  # not contiguous
        for moved in (right.to(device), wide):
            actual = getattr(torch, name)(left.to(device), moved, alpha=alpha)
            torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, rtol=0, atol=0)


def test_alpha_scales_the_second_operand(device: torch.device) -> None:
    check(device, lambda a, b: torch.add(a, b, alpha=2.5), values(50), values(50, seed=1))
    check(device, lambda a: torch.sub(a, 1.5, alpha=2), values(50))
