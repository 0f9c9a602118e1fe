"""softmax and log_softmax, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from support.parity import VIEWS, assert_gradient_parity, assert_parity

FUNCTIONS = [torch.softmax, torch.log_softmax]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 4).to(dtype)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("shape", [(3, 10, 7), (2, 300, 5), (4, 2, 3000)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_forward_and_backward(
    function: Callable[..., Any], shape: tuple[int, ...], dim: int, device: torch.device
) -> None:
    # If rows have a peak, the CPU's own gradient of log_softmax is beyond the tolerance where it has AVX2 alone.
    assert_gradient_parity(lambda x: function(x, dim), values(*shape) / 4, device=device)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_layout(function: Callable[..., Any], view: str, device: torch.device) -> None:
    assert_parity(lambda x: function(VIEWS[view](x), -1), values(6, 5, 8), device=device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_half_types(function: Callable[..., Any], dtype: torch.dtype, device: torch.device) -> None:
    assert_parity(lambda x: function(x, 1), values(40, 60, dtype=dtype) / 4, device=device)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_double_precision(function: Callable[..., Any], device: torch.device) -> None:
    assert_gradient_parity(lambda x: function(x, 1), values(4, 2500, dtype=torch.float64), device=device)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_small_and_empty(function: Callable[..., Any], shape: tuple[int, ...], device: torch.device) -> None:
    assert_parity(lambda x: function(x, -1), values(*shape), device=device)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_extreme_values(function: Callable[..., Any], device: torch.device) -> None:
    x = torch.tensor([[1e4, -1e4, 0.0], [float("-inf"), 0.0, 1.0], [float("nan"), 0.0, 1.0], [88.0, 90.0, -104.0]])
    assert_parity(lambda t: function(t, 1), x, device=device)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_dtype_and_out(function: Callable[..., Any], device: torch.device) -> None:
    assert_parity(lambda x: function(x, 1, dtype=torch.float64), values(3, 4), device=device)
    assert_parity(lambda x: function(x, 1, out=torch.empty(0, device=x.device)), values(3, 4), device=device)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_dim_raises(function: Callable[..., Any], device: torch.device) -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        function(torch.zeros(2, 3, device=device), 2)
