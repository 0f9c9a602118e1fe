"""flip, roll, pixel_shuffle, padding by reflection and replication, linspace and eye: made of other kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from support.parity import VIEWS, assert_gradient_parity, assert_no_copies, is_out_of_reach

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
Function = Callable[[torch.Tensor], torch.Tensor]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


@pytest.mark.parametrize("dims", [(0,), (1,), (-1,), (0, 2), (2, 1, 0), ()])
@pytest.mark.parametrize("view", VIEWS)
def test_flip(view: str, dims: tuple[int, ...], device: torch.device) -> None:
    assert_no_copies(lambda x: VIEWS[view](x).flip(dims), values(4, 5, 6), device=device)


@pytest.mark.parametrize(("shifts", "dims"), [(1, 0), (-2, 1), (17, -1), (3, ()), ((1, -1), (0, 2)), ((1, 2), (1, 1))])
@pytest.mark.parametrize("view", VIEWS)
def test_roll(view: str, shifts: int, dims: int, device: torch.device) -> None:
    assert_no_copies(lambda x: VIEWS[view](x).roll(shifts, dims), values(4, 5, 6), device=device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 5), (7,), (1,), (0,), (2, 0)])
def test_flip_and_roll_of_any_dtype(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
    assert_no_copies(lambda x: x.flip(0), values(*shape, dtype=dtype), device=device)
    if 0 not in shape:
        assert_no_copies(lambda x: x.roll(2, 0), values(*shape, dtype=dtype), device=device)


def test_flip_of_one_element(device: torch.device) -> None:
    assert_no_copies(lambda x: x.flip(()), values(), device=device)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_pixel_shuffle(memory_format: torch.memory_format, device: torch.device) -> None:
    x = values(2, 8, 4, 6).contiguous(memory_format=memory_format)
    assert_no_copies(lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)), x, device=device)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((2, 3, 6), (2, 3)),
        ((3, 6), (0, 1)),
        ((2, 3, 6), (-1, 2)),
        ((2, 3, 5, 6), (1, 2, 3, 4)),
        ((3, 5, 6), (1, 0, 0, 2)),
        ((2, 3, 4, 5, 6), (1, 2, 3, 1, 2, 3)),
        ((3, 4, 5, 6), (1, 1, 1, 1, 1, 1)),
    ],
)
def test_padding(shape: tuple[int, ...], pads: tuple[int, ...], mode: str, device: torch.device) -> None:
    assert_no_copies(lambda x: F.pad(x, pads, mode), values(*shape), device=device)
    assert_gradient_parity(
        lambda x: F.pad(x, pads, mode), values(*shape), device=device, native=is_out_of_reach(device)
    )


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_padding_keeps_channels_last(dtype: torch.dtype, mode: str, device: torch.device) -> None:
    x = values(2, 3, 5, 6, dtype=dtype).contiguous(memory_format=torch.channels_last)
    assert_no_copies(lambda x: F.pad(x, (1, 2, 3, 1), mode), x, device=device)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize(("shape", "pads"), [((2, 3), (3, 0)), ((2, 3, 3, 3), (1, 4, 1, 1)), ((2, 0, 3), (1, 1))])
def test_padding_too_much_is_as_on_cpu(
    shape: tuple[int, ...], pads: tuple[int, ...], mode: str, device: torch.device
) -> None:
    def outcome(x: torch.Tensor) -> torch.Tensor | str:
        try:
            return F.pad(x, pads, mode).cpu()
        except RuntimeError as error:
            return str(error)

    actual, expected = outcome(values(*shape).to(device)), outcome(values(*shape))
    assert type(actual) is type(expected)
    if isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor):
        assert torch.equal(actual, expected)
    else:
        assert actual == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("arguments", [(0, 1, 11), (-3, 3, 100), (5, 2, 1), (0, 0, 4), (1, 9, 0), (1e-3, 1e3, 50_001)])
def test_linspace(arguments: tuple[float, float, int], dtype: torch.dtype, device: torch.device) -> None:
    actual = torch.linspace(*arguments, dtype=dtype, device=device).cpu()
    expected = torch.linspace(*arguments, dtype=dtype)
    torch.testing.assert_close(actual, expected)
    assert torch.equal(actual[-1:], expected[-1:])


@pytest.mark.parametrize("sizes", [(3,), (2, 5), (5, 2), (0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_eye(dtype: torch.dtype, sizes: tuple[int, ...], device: torch.device) -> None:
    assert torch.equal(torch.eye(*sizes, dtype=dtype, device=device).cpu(), torch.eye(*sizes, dtype=dtype))
