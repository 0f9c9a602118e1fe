"""isin: few tests on the device's own kernel, many on the CPU's."""

from __future__ import annotations

import pytest
import torch

from support.parity import VIEWS, assert_parity
from torch_mydev import fallback_mode

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
]


def values(*shape: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 50, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_isin_of_few_tests(dtype: torch.dtype, count: int, invert: bool, device: torch.device) -> None:
    operands = values(3000, dtype=dtype), values(count, dtype=dtype, seed=1)
    assert_parity(lambda x, tests: torch.isin(x, tests, invert=invert), *operands, device=device)


@pytest.mark.parametrize("view", VIEWS)
def test_isin_of_any_layout(view: str, device: torch.device) -> None:
    x, tests = VIEWS[view](values(5, 6, 7)), VIEWS[view](values(3, 4, seed=1))
    expected = torch.isin(x.contiguous(), tests.contiguous())  # the CPU refuses some layouts
    with fallback_mode("error"):
        actual = torch.isin(VIEWS[view](values(5, 6, 7).to(device)), VIEWS[view](values(3, 4, seed=1).to(device)))
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_isin_of_little(shape: tuple[int, ...], device: torch.device) -> None:
    assert_parity(torch.isin, values(*shape), values(3, seed=1), device=device)


def test_isin_of_many_tests_sorts(device: torch.device) -> None:
    assert_parity(torch.isin, values(1000), values(500, seed=1), device=device, native=False)


def test_nan_is_in_nothing_and_zeros_are_one(device: torch.device) -> None:
    x = torch.tensor([torch.nan, 0.0, -0.0, torch.inf, 2**24 + 2.0])
    assert_parity(torch.isin, x, torch.tensor([torch.nan, -0.0, torch.inf, 2.0**24]), device=device)


def test_large_integers_are_told_apart(device: torch.device) -> None:
    assert_parity(torch.isin, torch.tensor([2**60, 2**60 + 1]), torch.tensor([2**60 + 1]), device=device)


def test_other_types_are_the_cpus(device: torch.device) -> None:
    assert_parity(torch.isin, values(20), torch.tensor([1.0, 3.5]), device=device, native=False)
    with pytest.raises(RuntimeError, match="Unsupported input type"):
        torch.isin(torch.ones(3, dtype=torch.bool, device=device), torch.ones(3, dtype=torch.bool, device=device))
