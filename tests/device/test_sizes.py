"""Sizes whose bytes do not fit in 64 bits, or in any memory: an error, and every tensor as it was before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

HUGE = 2**62 + 10  # times four wraps to 40

FACTORIES: dict[str, Callable[[torch.device | str], Any]] = {
    "empty": lambda d: torch.empty(HUGE, device=d),
    "empty of two dimensions": lambda d: torch.empty(2**40, 2**30, device=d),
    "empty of float64": lambda d: torch.empty(2**61 + 5, dtype=torch.float64, device=d),
    "zeros": lambda d: torch.zeros(HUGE, device=d),
    "ones": lambda d: torch.ones(HUGE, device=d),
    "full": lambda d: torch.full((HUGE,), 2.0, device=d),
    "rand": lambda d: torch.rand(HUGE, device=d),
    "randint": lambda d: torch.randint(3, (2**61 + 5,), device=d),
    "arange": lambda d: torch.arange(HUGE, device=d),
    "eye": lambda d: torch.eye(2**40, 2**30, device=d),
    "empty_strided": lambda d: torch.empty_strided((2**40,), (2**30,), device=d),
    "empty, channels last": lambda d: torch.empty(2**20, 2**20, 2**20, 8, device=d, memory_format=torch.channels_last),
    "new_empty": lambda d: torch.ones(1, device=d).new_empty(HUGE),
    "new_zeros": lambda d: torch.ones(1, device=d).new_zeros(HUGE),
    "empty_like": lambda d: torch.empty_like(
        torch.ones(1, device=d).expand(HUGE), memory_format=torch.contiguous_format
    ),
    "contiguous": lambda d: torch.ones(1, device=d).expand(HUGE).contiguous(),
    "to another dtype": lambda d: torch.ones(1, dtype=torch.int8, device=d).expand(HUGE).to(torch.float32),
    "add": lambda d: torch.ones(1, device=d).expand(HUGE) + 1,
    "relu": lambda d: torch.ones(1, device=d).expand(HUGE).relu(),
    "outer": lambda d: torch.ones(1, device=d).expand(2**40).unsqueeze(1) * torch.ones(1, device=d).expand(2**30),
    "matmul": lambda d: torch.ones(1, 1, device=d).expand(2**40, 1) @ torch.ones(1, 1, device=d).expand(1, 2**30),
    "repeat": lambda d: torch.ones(1, device=d).repeat(HUGE),
    "cat": lambda d: torch.cat([torch.ones(1, device=d).expand(2**60)] * 5),
    "stack": lambda d: torch.stack([torch.ones(1, device=d).expand(2**60)] * 5),
    "pad": lambda d: torch.nn.functional.pad(torch.ones(1, device=d), (0, HUGE)),
    "one_hot": lambda d: torch.nn.functional.one_hot(torch.ones(1, dtype=torch.long, device=d), 2**61 + 5),
    "upsample": lambda d: torch.nn.functional.interpolate(torch.ones(1, 1, 1, 1, device=d), (2**40, 2**30)),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_sizes_that_overflow(name: str, device: torch.device) -> None:
    with pytest.raises(RuntimeError) as expected:
        FACTORIES[name]("cpu")
    with pytest.raises(RuntimeError) as actual:
        FACTORIES[name](device)
    if "overflow" in str(expected.value):
        assert "overflow" in str(actual.value) or isinstance(actual.value, torch.OutOfMemoryError)


@pytest.mark.parametrize("sizes", [(HUGE,), (2**40, 2**30)])
def test_resize_that_overflows_leaves_the_tensor(sizes: tuple[int, ...], device: torch.device) -> None:
    tensor = torch.arange(3.0, device=device)
    with pytest.raises(RuntimeError, match="overflow"):
        tensor.resize_(sizes)
    assert tensor.tolist() == [0, 1, 2]


def test_resize_without_memory_leaves_the_tensor(device: torch.device) -> None:
    tensor = torch.arange(3.0, device=device)
    with pytest.raises(torch.OutOfMemoryError):
        tensor.resize_(2**50)
    assert tensor.tolist() == [0, 1, 2]


def test_a_dimension_of_no_elements_makes_up_for_the_others(device: torch.device) -> None:
    assert torch.empty(HUGE, 2, 0, device=device).shape == (HUGE, 2, 0)
    assert torch.empty(0, device=device).resize_(2**40, 0).shape == (2**40, 0)


@pytest.mark.parametrize("size", [2**63 - 1, 2**62])
def test_storages_of_impossible_sizes(size: int, device: torch.device) -> None:
    with pytest.raises(RuntimeError):
        torch.UntypedStorage(size, device=device)
    with pytest.raises(RuntimeError):
        torch.empty(size, dtype=torch.uint8, device=device)


def test_copies_of_huge_expanded_operands(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="overflow"):
        torch.ones(1).expand(HUGE).to(device)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.ones(1, device=device).expand(HUGE).cpu()
