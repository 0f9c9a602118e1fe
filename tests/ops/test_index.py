"""cat, stack, index_select, gather and arange."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support.parity import VIEWS, assert_gradient_parity, assert_parity, raises_in_a_kernel

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(dim: int, dtype: torch.dtype, device: torch.device) -> None:
    assert_parity(
        lambda a, b: torch.cat([a, b, a], dim),
        values(3, 4, 5, dtype=dtype),
        values(3, 4, 5, dtype=dtype),
        device=device,
    )


def test_cat_of_unequal_lengths(device: torch.device) -> None:
    assert_gradient_parity(
        lambda a, b, c: torch.cat([a, b, c], 1), values(3, 1, 2), values(3, 0, 2), values(3, 5, 2), device=device
    )


def test_cat_skips_empty_vectors(device: torch.device) -> None:
    assert_parity(lambda a, b: torch.cat([b, a, b]), values(3, 4), torch.empty(0), device=device)


@pytest.mark.parametrize("view", VIEWS)
def test_cat_of_any_layout(view: str, device: torch.device) -> None:
    assert_parity(lambda x: torch.cat([VIEWS[view](x), VIEWS[view](x)], 1), values(6, 5, 8), device=device)


def test_cat_promotes_dtypes(device: torch.device) -> None:
    assert_parity(lambda a, b: torch.cat([a, b]), values(3, dtype=torch.int32), values(4), device=device)


def test_cat_into_out(device: torch.device) -> None:
    assert_parity(lambda a: torch.cat([a, a], out=torch.empty(0, device=a.device)), values(3, 2), device=device)


def test_cat_keeps_channels_last(device: torch.device) -> None:
    x = values(2, 3, 4, 5).contiguous(memory_format=torch.channels_last).to(device)
    assert torch.cat([x, x], 1).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("operands", [[], [torch.zeros(2, 3), torch.zeros(3, 4)], [torch.zeros(()), torch.zeros(())]])
def test_wrong_cat_raises_as_on_cpu(operands: list[torch.Tensor], device: torch.device) -> None:
    with pytest.raises((RuntimeError, ValueError)) as expected:
        torch.cat(operands)
    with pytest.raises(type(expected.value)) as actual:
        torch.cat([operand.to(device) for operand in operands])
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_stack(dim: int, device: torch.device) -> None:
    assert_gradient_parity(lambda a, b: torch.stack([a, b], dim), values(3, 4), values(3, 4), device=device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select(dim: int, dtype: torch.dtype, device: torch.device) -> None:
    assert_parity(
        lambda x, i: torch.index_select(x, dim, i),
        values(4, 5, 6, dtype=dtype),
        torch.tensor([3, 0, 3, 1]),
        device=device,
    )


@pytest.mark.parametrize("view", VIEWS)
def test_index_select_of_any_layout(view: str, device: torch.device) -> None:
    assert_parity(
        lambda x, i: VIEWS[view](x).index_select(1, i[::2]), values(6, 5, 8), torch.tensor([2, 9, 0, 9]), device=device
    )


@pytest.mark.parametrize(
    "index", [torch.tensor(2), torch.empty(0, dtype=torch.int64), torch.tensor([1, 1], dtype=torch.int32)]
)
def test_index_select_with_any_index(index: torch.Tensor, device: torch.device) -> None:
    assert_parity(lambda x, i: torch.index_select(x, 0, i), values(4, 3), index, device=device)


def test_index_select_gradient(device: torch.device) -> None:
    assert_gradient_parity(
        lambda x, i: torch.index_select(x, 1, i), values(4, 3), torch.tensor([0, 2, 0]), device=device, native=False
    )


@pytest.mark.parametrize("bad", [4, -1])
def test_index_out_of_range_raises(bad: int, device: torch.device) -> None:
    with raises_in_a_kernel(IndexError, "index out of range in self"):
        torch.index_select(torch.zeros(4, device=device), 0, torch.tensor([bad], device=device)).cpu()


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("view", ["contiguous", "transposed", "strided"])
def test_gather(view: str, dim: int, device: torch.device) -> None:
    index = torch.randint(0, 4, (4, 3, 4), generator=torch.Generator().manual_seed(0))
    assert_parity(lambda x, i: torch.gather(VIEWS[view](x), dim, i), values(8, 4, 8)[:, :4], index, device=device)


@pytest.mark.parametrize("view", list(VIEWS))
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_gather_by_an_index_that_is_expanded_along_rows(
    view: str, dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    shape = VIEWS[view](torch.zeros(8, 4, 8)[:, :4]).shape
    index = torch.arange(shape[0] * shape[1]).remainder(min(shape)).view(shape[0], shape[1], 1)
    assert_parity(
        lambda x, i: torch.gather(VIEWS[view](x), dim, i.expand(-1, -1, shape[2])),
        values(8, 4, 8)[:, :4].to(dtype),
        index,
        device=device,
    )


def test_expanded_index_out_of_range_raises(device: torch.device) -> None:
    index = torch.tensor([[0], [3]], device=device).expand(2, 4)
    with raises_in_a_kernel(RuntimeError, "index 3 is out of bounds for dimension 0 with size 3"):
        torch.gather(torch.zeros(3, 4, device=device), 0, index).cpu()


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("bad", [3, -1, -(1 << 63), (1 << 63) - 1])
def test_gather_out_of_range_raises(bad: int, dim: int, device: torch.device) -> None:
    index = torch.tensor([[0, 2, bad]], device=device)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        torch.gather(torch.zeros(3, 3, device=device), dim, index).cpu()


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.uint8])
@pytest.mark.parametrize("arguments", [(5,), (2, 9), (0, 10, 3), (0, 0), (10, 0, -2)])
def test_arange(arguments: tuple[Any, ...], dtype: torch.dtype | None, device: torch.device) -> None:
    actual = torch.arange(*arguments, dtype=dtype, device=device)
    torch.testing.assert_close(actual.cpu(), torch.arange(*arguments, dtype=dtype))


@pytest.mark.parametrize("arguments", [(0.5, 3.0, 0.1), (1, 0, -0.25), (1e6, 1e6 + 3, 0.5)])
def test_arange_of_fractions(arguments: tuple[float, ...], device: torch.device) -> None:
    torch.testing.assert_close(torch.arange(*arguments, device=device).cpu(), torch.arange(*arguments))


def test_large_arange(device: torch.device) -> None:
    torch.testing.assert_close(torch.arange(300_000, device=device).cpu(), torch.arange(300_000))


def test_arange_with_a_wrong_sign_raises(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        torch.arange(0, 5, -1, device=device)
