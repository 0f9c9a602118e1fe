"""Reductions: sum, mean, prod, extrema, truth, norms, variance. Every case runs on the device's own kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from support.parity import VIEWS, assert_gradient_parity, assert_parity

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]

# Reductions that take dim=None, one dim or several, and keepdim.
OVER_DIMS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "norm1": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 1, dim, keepdim),
    "norm2": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "norm_inf": lambda x, dim, keepdim: torch.linalg.vector_norm(x, float("inf"), dim, keepdim),
    "var": lambda x, dim, keepdim: torch.var(x, dim, keepdim=keepdim),
    "std": lambda x, dim, keepdim: torch.std(x, dim, correction=0, keepdim=keepdim),
}


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", OVER_DIMS)
def test_reduction_over_dims(name: str, dim: Any, view: str, device: torch.device) -> None:
    assert_parity(lambda x: OVER_DIMS[name](VIEWS[view](x), dim, False), values(7, 34, 19), device=device)


@pytest.mark.parametrize("name", OVER_DIMS)
def test_reduction_keeps_dims(name: str, device: torch.device) -> None:
    assert_parity(lambda x: OVER_DIMS[name](x, (0, -1), True), values(3, 4, 5), device=device)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", OVER_DIMS)
def test_reduction_in_floating_types(name: str, dtype: torch.dtype, device: torch.device) -> None:
    assert_parity(lambda x: OVER_DIMS[name](x, 1, False), values(5, 300, dtype=dtype), device=device)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["sum", "amax", "amin", "any", "all"])
def test_reduction_in_integer_types(name: str, dtype: torch.dtype, device: torch.device) -> None:
    assert_parity(lambda x: OVER_DIMS[name](x, 0, False), values(130, 5, dtype=dtype), device=device)


@pytest.mark.parametrize("function", [torch.sum, torch.mean, torch.prod, torch.max, torch.min, torch.any, torch.all])
@pytest.mark.parametrize("shape", [(), (1,), (17,), (4, 5, 6)])
def test_reduction_of_everything(function: Callable[..., Any], shape: tuple[int, ...], device: torch.device) -> None:
    assert_parity(function, values(*shape), device=device)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_prod_over_one_dim(dim: int, dtype: torch.dtype, device: torch.device) -> None:
    assert_parity(lambda x: torch.prod(x, dim), values(6, 9, dtype=dtype), device=device)


@pytest.mark.parametrize("shape", [(1 << 20,), (3, 400_000), (400_000, 3), (1000, 1000)])
@pytest.mark.parametrize("function", [torch.sum, torch.mean, torch.amax, lambda x: x.sum(0), lambda x: x.sum(-1)])
def test_long_reductions_stay_accurate(
    function: Callable[..., Any], shape: tuple[int, ...], device: torch.device
) -> None:
    exact = function(values(*shape).double() + 1.0).float()
    actual = function((values(*shape) + 1.0).to(device)).cpu()
    torch.testing.assert_close(actual, exact)


@pytest.mark.parametrize(
    "function", [torch.sum, torch.prod, lambda x: x.sum(1), lambda x: x.mean(1), torch.any, torch.all]
)
def test_reduction_of_nothing(function: Callable[..., Any], device: torch.device) -> None:
    assert_parity(function, torch.empty(3, 0), device=device)


@pytest.mark.parametrize("function", [lambda x: x.sum(0), lambda x: x.amax(1), lambda x: torch.max(x, 1)])
def test_reduction_to_nothing(function: Callable[..., Any], device: torch.device) -> None:
    assert_parity(function, torch.empty(0, 3), device=device, native=False)


@pytest.mark.parametrize("function", [torch.amax, torch.max, torch.amin])
def test_amax_of_nothing_raises_as_on_cpu(function: Callable[..., Any], device: torch.device) -> None:
    with pytest.raises((RuntimeError, IndexError)) as expected:
        function(torch.empty(0))
    with pytest.raises(type(expected.value)) as actual:
        function(torch.empty(0, device=device))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_reduction_with_dtype(dtype: torch.dtype, device: torch.device) -> None:
    assert_parity(
        lambda x: torch.sum(x, 0, dtype=dtype), values(40, 3, dtype=torch.bfloat16), device=device, native=False
    )
    assert_parity(lambda x: torch.mean(x, 0, dtype=dtype), values(40, 3, dtype=torch.int32), device=device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norm_of_single_elements_is_their_magnitude(order: float, dtype: torch.dtype, device: torch.device) -> None:
    x = torch.tensor([[3e38], [-1e-30], [float("nan")], [-0.0]], dtype=dtype)
    assert_parity(lambda x: torch.linalg.vector_norm(x, order, dim=1), x, device=device)
    assert_parity(lambda x: torch.nn.functional.normalize(x), x[:2], device=device)


def test_reduction_into_out(device: torch.device) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(0, dtype=x.dtype, device=x.device)
        result = torch.sum(x, 1, out=out)
        assert result is out
        return out

    assert_parity(run, values(4, 6), device=device)


def test_reduction_into_strided_out(device: torch.device) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(3, 5, device=x.device).t()
        torch.amax(x, 1, out=out)
        return out

    assert_parity(run, values(5, 4, 3), device=device)


@pytest.mark.parametrize("dim", [2, -3, (0, 0)])
def test_wrong_dims_raise_as_on_cpu(dim: Any, device: torch.device) -> None:
    with pytest.raises((IndexError, RuntimeError)) as expected:
        torch.sum(values(2, 3), dim)
    with pytest.raises(type(expected.value)) as actual:
        torch.sum(values(2, 3).to(device), dim)
    assert str(actual.value) == str(expected.value)


def test_mean_of_integers_raises_as_on_cpu(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        torch.mean(values(3, dtype=torch.int64).to(device))


@pytest.mark.parametrize(
    "function", [torch.sum, torch.amax, torch.amin, torch.max, lambda x: torch.max(x, 0)[0], torch.argmax]
)
@pytest.mark.parametrize("where", [0, 700, 1999])
def test_nan_propagates(function: Callable[..., Any], where: int, device: torch.device) -> None:
    x = values(2000)
    x[where] = float("nan")
    assert_parity(function, x, device=device)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dim", [0, 1, -1, None])
@pytest.mark.parametrize("function", [torch.argmax, torch.argmin])
def test_arg_reduction(function: Callable[..., Any], dim: int | None, view: str, device: torch.device) -> None:
    x = values(6, 40, 12, dtype=torch.int32)  # many equal elements: the first one counts
    assert_parity(lambda t: function(VIEWS[view](t), dim), x, device=device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_arg_reduction_with_value(
    function: Callable[..., Any], dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    assert_parity(lambda t: tuple(function(t, dim, keepdim=True)), values(5, 2000, 3, dtype=dtype), device=device)


@pytest.mark.parametrize("dims", [None, 0, (0, 2)])
@pytest.mark.parametrize("function", [torch.var_mean, torch.std_mean])
def test_variance_with_mean(function: Callable[..., Any], dims: Any, device: torch.device) -> None:
    assert_parity(lambda x: function(x, dims, correction=1), values(4, 70, 9), device=device)


def test_variance_of_large_offset_is_accurate(device: torch.device) -> None:
    x = values(4096) + 1e4
    torch.testing.assert_close(torch.var(x.to(device)).cpu(), torch.var(x.double()).float())


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dim", [0, 1, 2, (0, 2), (0, 1), None])
def test_variance_about_a_large_mean_is_the_cpus(dim: Any, view: str, device: torch.device) -> None:
    x = values(40, 60, 36) + 1e5
    exact = torch.var(VIEWS[view](x.double()), dim).float()
    torch.testing.assert_close(torch.var(VIEWS[view](x.to(device)), dim).cpu(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("function", [torch.var, torch.std, torch.var_mean, torch.std_mean])
@pytest.mark.parametrize(
    "x",
    [
        torch.tensor([1e18, 1e18, -1e18, 2e18]),
        torch.full((120,), 1e38),
        torch.full((120,), 1e307, dtype=torch.float64),
        torch.full((120,), 3e38, dtype=torch.bfloat16),
    ],
    ids=["squares", "sum", "sum of double", "sum of bfloat16"],
)
@pytest.mark.parametrize("dim", [0, 1])
def test_variance_within_range_of_large_values(
    x: torch.Tensor, dim: int, function: Callable[..., Any], device: torch.device
) -> None:
    rows = x.repeat(8, 1)
    assert_parity(lambda t: function(t, dim), rows if dim == 1 else rows.t().contiguous(), device=device)


def test_standard_deviation_beyond_the_range_of_squares(device: torch.device) -> None:
    assert_parity(torch.std, torch.tensor([1e30, 1e30, -1e30]), device=device)


@pytest.mark.parametrize("count", [3, 10, 1000])
def test_elements_that_are_the_same_have_no_variance(count: int, device: torch.device) -> None:
    x = torch.full((count, 5), 1.1, dtype=torch.float64, device=device)
    for dims in (0, 1, None):
        variance, mean = torch.var_mean(x, dims)
        assert variance.count_nonzero() == 0
        assert torch.all(mean == 1.1)


def test_variance_of_one_element_is_nan_with_a_warning(device: torch.device) -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert torch.isnan(torch.var(torch.ones(1, device=device)).cpu())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1),
        lambda x: x.mean((0, 1)),
        lambda x: x.amax(1),
        lambda x: x.max(1)[0],
        lambda x: x.var(0),
        lambda x: x.std(),
        lambda x: torch.linalg.vector_norm(x, 2, 1),
        lambda x: x.prod(1),
    ],
)
def test_gradients(function: Callable[..., Any], device: torch.device) -> None:
    assert_gradient_parity(function, values(6, 11), device=device, native=False)


@pytest.mark.parametrize("length", [1, 3, 15, 16, 17, 49, 63, 64, 65, 200, 1030])
@pytest.mark.parametrize("name", ["amax", "amin", "sum", "mean", "prod"])
def test_rows_of_every_length(name: str, length: int, device: torch.device) -> None:
    """Rows shorter than a vector, of some vectors and a rest, and long ones; a NaN wins wherever it stands."""
    rows = torch.randn(5, length, generator=torch.Generator().manual_seed(length))
    rows[3, length - 1] = float("nan")
    rows[4, 0] = float("nan")
    for x in (rows, rows.double(), rows.t().contiguous().t(), rows.bfloat16()):
        expected = getattr(x, name)(1)
        torch.testing.assert_close(getattr(x.to(device), name)(1).cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 64, 67, 131])
def test_columns_over_any_number_of_rows(rows: int, device: torch.device) -> None:
    x = torch.randn(rows, 37, generator=torch.Generator().manual_seed(rows))
    for operand in (x, x.bfloat16(), torch.cat([x, x], 1)[:, ::2]):
        torch.testing.assert_close(operand.to(device).sum(0).cpu(), operand.sum(0))
        torch.testing.assert_close(operand.to(device).amax(0).cpu(), operand.amax(0))


@pytest.mark.parametrize("dims", [[-1, 1, 2], [2, 1, -1], [0, 0], [-3]], ids=str)
@pytest.mark.parametrize("reduce", [torch.var, torch.std_mean, torch.amax, torch.sum, torch.linalg.vector_norm])
def test_dims_are_refused_as_by_the_cpu(device: torch.device, reduce: Callable[..., object], dims: list[int]) -> None:
    """The CPU raises for the first that is wrong, in an order that differs between operators."""
    with pytest.raises((IndexError, RuntimeError)) as expected:
        reduce(torch.zeros(2, 3), dim=dims)
    with pytest.raises(expected.type, match=re.escape(str(expected.value))):
        reduce(torch.zeros(2, 3, device=device), dim=dims)


@pytest.mark.parametrize("operator", [torch.argmax, torch.argmin])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("sizes", [(), (5,), (2, 3)], ids=str)
def test_the_place_among_all(operator: object, keepdim: bool, sizes: tuple[int, ...], device: torch.device) -> None:
    assert callable(operator)
    x = torch.randn(sizes)
    expected, actual = operator(x, keepdim=keepdim), operator(x.to(device), keepdim=keepdim)
    assert actual.shape == expected.shape
    assert torch.equal(actual.cpu(), expected)
