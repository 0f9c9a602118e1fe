"""unique and unique_consecutive against the CPU: types, NaN, layouts, few elements and many."""

from __future__ import annotations

import pytest
import torch

from support.parity import is_out_of_reach
from torch_mydev import fallback_census

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool]
OPERATORS = [torch.unique, torch.unique_consecutive]
SIZES = [(), (0,), (0, 3), (1,), (3, 5), (40, 30), (5000,)]


def operand(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """Few different values, so that many are equal; numbers of both signs."""
    torch.manual_seed(0)
    least, end = (0, 2) if dtype == torch.bool else (0, 7) if dtype == torch.uint8 else (-3, 4)
    return torch.randint(least, end, sizes).to(dtype)


def assert_as_on_the_cpu(operator: object, x: torch.Tensor) -> None:
    assert callable(operator)
    for inverse in (False, True):
        for counts in (False, True):
            options = {"return_inverse": inverse, "return_counts": counts}
            expected, actual = operator(x, **options), operator(x.to("mydev"), **options)
            if not inverse and not counts:
                expected, actual = (expected,), (actual,)
            for a, e in zip(actual, expected, strict=True):
                torch.testing.assert_close(a.cpu(), e, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_is_as_on_the_cpu(operator: object, dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    assert_as_on_the_cpu(operator, operand(dtype, *sizes))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    "view",
    [lambda x: x.t(), lambda x: x[::2, 1::3], lambda x: x[:1].expand(70, -1), lambda x: torch._neg_view(x)],
    ids=["transposed", "stepped", "expanded", "negated"],
)
def test_layouts(operator: object, view: object) -> None:
    assert callable(view)
    assert_as_on_the_cpu(operator, view(operand(torch.float32, 80, 60)))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("repeats", [1, 500])
def test_nan_differs_from_nan(operator: object, repeats: int) -> None:
    assert callable(operator)
    x = torch.tensor([1.0, torch.nan, 0.0, -0.0, torch.nan, torch.nan, -torch.inf, torch.inf]).repeat(repeats)
    expected, expected_counts = operator(x, return_counts=True)
    values, inverse, counts = operator(x.to("mydev"), return_inverse=True, return_counts=True)
    torch.testing.assert_close(values.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(counts.cpu(), expected_counts)
    # Which NaN is which the CPU leaves open.
    torch.testing.assert_close(values[inverse].cpu(), x, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("operator", OPERATORS)
def test_stays_on_the_device(operator: object, device: torch.device) -> None:
    assert callable(operator)
    if not is_out_of_reach(device):
        pytest.skip("needs memory that the host does not reach: else the CPU's kernels are faster for some parts")
    x = operand(torch.float32, 40, 30).to(device)
    with fallback_census() as census:
        operator(x, return_inverse=True, return_counts=True)
    assert [row.op for row in census.rows] == []
