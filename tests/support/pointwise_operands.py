"""Operands of pointwise operators, in each layout, and holding a function of them to what the CPU gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing import assert_close

import torch_mydev

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


def values(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(shape, generator=generator, dtype=torch.float64) * 2).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -20, 20, shape, generator=generator).to(dtype)


def contiguous(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return values(6, 70, dtype=dtype, seed=seed)


def transposed(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return values(70, 6, dtype=dtype, seed=seed).t()


def sliced(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return values(9, 150, dtype=dtype, seed=seed)[2:8, 5:145:2]


def row(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return values(70, dtype=dtype, seed=seed)


def column(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return values(6, 1, dtype=dtype, seed=seed)


def zero_dim(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return values(dtype=dtype, seed=seed)


def empty(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return values(0, 70, dtype=dtype, seed=seed)


LAYOUTS = [contiguous, transposed, sliced, row, column, zero_dim, empty]


def on(device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the device, with the same strides and offset."""
    base = tensor._base if tensor._base is not None else tensor
    moved = base.to(device)
    return moved.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()) if base is not tensor else moved


def check(
    device: torch.device, function: Callable[..., Any], *operands: Any, native: bool = True, **options: Any
) -> None:
    """The function gives the CPU's values, dtype and strides, without a fallback."""
    expected = function(*operands, **options)
    moved = [on(device, operand) if isinstance(operand, torch.Tensor) else operand for operand in operands]
    with torch_mydev.fallback_census() as census:
        actual = function(*moved, **options)
    assert actual.device.type == device.type
    assert actual.stride() == expected.stride()
    assert_close(actual.cpu(), expected, equal_nan=True)
    assert not native or not census.rows, f"fell back:\n{census}"


def check_outcome(device: torch.device, function: Callable[..., Any], *operands: Any) -> None:
    """The function gives the CPU's values, dtype and signs of zeros, or raises an error of the same type."""

    def outcome(arguments: list[Any]) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            return type(error)

    expected = outcome([operand.clone() if isinstance(operand, torch.Tensor) else operand for operand in operands])
    actual = outcome([on(device, operand) if isinstance(operand, torch.Tensor) else operand for operand in operands])
    if not isinstance(expected, torch.Tensor):
        assert actual == expected
        return
    assert isinstance(actual, torch.Tensor), f"{actual}, on the CPU {expected}"
    assert_close(actual.cpu(), expected, equal_nan=True)
    if expected.is_floating_point():
        numbers = ~expected.isnan()
        assert torch.equal(actual.cpu().signbit()[numbers], expected.signbit()[numbers]), "the sign of a zero differs"
