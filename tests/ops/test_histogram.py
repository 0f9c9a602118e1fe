"""histc: of floats as on the CPU, of integers as on CUDA, whose counts are those of the same numbers as floats."""

from __future__ import annotations

import pytest
import torch

VALUES = [0, 1, 1, 3, 5, 3, 9, 2, 200]
RANGES = [(4, 0, 3), (3, 0, 0), (5, 1, 9), (1, 3, 4), (7, 50, 60)]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32])
@pytest.mark.parametrize(("bins", "low", "high"), RANGES)
def test_counts_are_those_of_floats(device: torch.device, dtype: torch.dtype, bins: int, low: int, high: int) -> None:
    values = torch.tensor(VALUES).to(dtype)
    result = torch.histc(values.to(device).reshape(3, 3).t(), bins, low, high)
    assert result.dtype == dtype
    assert result.tolist() == torch.histc(values.double(), bins, low, high).tolist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [(torch.empty(0, dtype=torch.int32), [0, 0]), (torch.full((4,), 7), [0, 4]), (torch.tensor(-3), [0, 1])],
    ids=["empty", "equal", "0-dimensional"],
)
def test_range_is_found(device: torch.device, values: torch.Tensor, expected: list[int]) -> None:
    assert torch.histc(values.to(device), 2).tolist() == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 1), "bins must be > 0"),
        ((2, 3, 1), "max must be larger than min, but min is 3 and max is 1"),
        ((2**62, 0, 8), "beyond 64-bit integers"),
    ],
)
def test_wrong_ranges_are_refused(device: torch.device, arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.histc(torch.ones(3, dtype=torch.int32, device=device), *arguments)
