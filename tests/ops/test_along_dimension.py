"""scatter and scatter_add, cumsum and cumprod, tril and triu: kernels along dimensions, in all their forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from support.parity import VIEWS, assert_gradient_parity, assert_no_copies, is_out_of_reach, raises_in_a_kernel

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64]
SOME_VIEWS = ["contiguous", "transposed", "strided"]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


def places(*shape: int, below: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(1))


def permutations(*shape: int, dim: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)).argsort(dim)


# --- scatter ---------------------------------------------------------------------------------------------------------


def test_scatter_does_not_look_at_a_number_that_it_writes_nowhere(device: torch.device) -> None:
    """A number beyond the dtype: the CPU refuses it only where an element is written."""
    x = torch.zeros(0, 3, dtype=torch.uint8, device=device)
    assert x.scatter(1, x.long(), -2.5).shape == (0, 3)
    with pytest.raises(RuntimeError, match="cannot be converted"):
        x.new_zeros(1, 3).scatter(1, torch.zeros(1, 3, dtype=torch.int64, device=device), -2.5)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("view", SOME_VIEWS)
def test_scatter(view: str, dim: int, device: torch.device) -> None:
    def function(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, index, source = (VIEWS[view](t) for t in (x, index, source))
        index = index % x.size(dim)
        return (
            x.scatter(dim, index, source),
            x.scatter(dim, index, 2.5),
            x.clone().scatter_(dim, index, source),
            x.clone().scatter_(dim, index, -1),
            torch.scatter(x, dim, index, source, out=torch.empty(0, device=x.device)),
            x.scatter_add(dim, index, source),
            x.clone().scatter_add_(dim, index, source),
        )

    assert_no_copies(function, values(4, 5, 4), permutations(4, 5, 4, dim=dim), values(4, 5, 4), device=device)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_of_any_dtype(dtype: torch.dtype, dim: int, device: torch.device) -> None:
    # The index is smaller and the source larger than the tensor that is written.
    x, source, index = values(3, 8, dtype=dtype), values(4, 9, dtype=dtype), permutations(3, 3, dim=dim)
    assert_no_copies(lambda x, i, s: x.scatter(dim, i, s), x, index, source, device=device)
    assert_no_copies(lambda x, i, s: x.scatter_add(dim, i, s), x, index, source, device=device)


@pytest.mark.parametrize(("shape", "dim"), [((70_000,), 0), ((3, 30_000), 0), ((3, 30_000), 1), ((30_000, 3), 0)])
def test_scatter_add_of_many(shape: tuple[int, ...], dim: int, device: torch.device) -> None:
    index, source = places(*shape, below=3), places(*shape, below=5).double()
    assert_no_copies(lambda i, s: torch.zeros(s.shape, device=s.device).double().scatter_add(dim, i, s), index, source,
                     device=device)  # fmt: skip


def test_last_of_many_for_one_place_stays(device: torch.device) -> None:
    assert_no_copies(
        lambda x, i, s: x.scatter(0, i, s), torch.zeros(3), torch.arange(90_000) % 3, torch.arange(90_000.0),
        device=device,
    )  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_scatter_and_gather(dim: int, device: torch.device) -> None:
    native = is_out_of_reach(device)
    index = permutations(4, 4, dim=dim)
    for function in (torch.scatter, torch.scatter_add):
        assert_gradient_parity(
            lambda x, i, s, f=function: f(x, dim, i, s), values(4, 4), index, values(4, 4), device=device, native=native
        )
    assert_gradient_parity(lambda x, i: x.gather(dim, i), values(4, 4), index, device=device, native=native)


@pytest.mark.parametrize("bad", [3, -1])
@pytest.mark.parametrize("dim", [0, 1])
def test_scatter_out_of_range_raises(dim: int, bad: int, device: torch.device) -> None:
    index = torch.tensor([[0, bad, 1]], device=device)
    with raises_in_a_kernel(RuntimeError, f"index {bad} is out of bounds for dimension {dim} with size 3"):
        torch.zeros(3, 3, device=device).scatter(dim, index, 1.0).cpu()


# --- cumsum, cumprod -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("view", SOME_VIEWS)
@pytest.mark.parametrize("function", [torch.cumsum, torch.cumprod])
def test_cumulative(function: Callable[..., torch.Tensor], view: str, dim: int, device: torch.device) -> None:
    assert_no_copies(lambda x: function(VIEWS[view](x), dim), values(4, 5, 6), device=device)
    assert_no_copies(lambda x: function(x, dim, out=torch.empty(0, device=x.device)), values(4, 5, 6), device=device)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_complex] + [torch.float16])
@pytest.mark.parametrize("to", [None, torch.float64, torch.int32])
def test_cumsum_of_any_dtype(to: torch.dtype | None, dtype: torch.dtype, device: torch.device) -> None:
    x = places(60, below=9).to(dtype)
    assert_no_copies(lambda x: x.cumsum(0, dtype=to), x, device=device)
    if dtype != torch.bool:
        assert_no_copies(lambda x: x.clone().cumsum_(0), x, device=device)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)])
def test_cumsum_of_little(shape: tuple[int, ...], device: torch.device) -> None:
    assert_no_copies(lambda x: (x.cumsum(0), x.cumprod(-1)), values(*shape), device=device)


@pytest.mark.parametrize(("shape", "dim"), [((200_000,), 0), ((2, 50_000), 0), ((50_000, 3), 0), ((300, 400), 1)])
def test_cumsum_of_many(shape: tuple[int, ...], dim: int, device: torch.device) -> None:
    assert_no_copies(lambda x: x.cumsum(dim), places(*shape, below=9), device=device)


def test_gradients_of_cumsum_and_cumprod(device: torch.device) -> None:
    native = is_out_of_reach(device)
    assert_gradient_parity(lambda x: x.cumsum(0), values(4, 5), device=device, native=native)
    assert_gradient_parity(lambda x: x.cumprod(1), values(4, 5) + 9, device=device, native=False)


# --- tril, triu ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", [0, 1, -1, -2, 3, 7, -7, 2**62, -(2**62)])
@pytest.mark.parametrize("view", SOME_VIEWS)
@pytest.mark.parametrize("function", [torch.tril, torch.triu])
def test_triangle(function: Callable[..., torch.Tensor], view: str, diagonal: int, device: torch.device) -> None:
    assert_no_copies(
        lambda x: (function(VIEWS[view](x), diagonal), function(x, diagonal, out=torch.empty(0, device=x.device))),
        values(4, 5, 6),
        device=device,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangle_in_place_and_of_any_dtype(dtype: torch.dtype, device: torch.device) -> None:
    assert_no_copies(lambda x: (x.clone().tril_(), x.t().clone().triu_(1)), values(5, 7, dtype=dtype), device=device)


def test_gradient_of_triangle(device: torch.device) -> None:
    assert_gradient_parity(torch.triu, values(4, 5), device=device, native=is_out_of_reach(device))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x[0].tril(),
        lambda x: x.cumsum(2),
        lambda x: x.scatter(0, torch.zeros(2, 6, dtype=torch.int64, device=x.device), x),
        lambda x: x.scatter(0, torch.zeros(2, 2, dtype=torch.int64, device=x.device), x.double()),
        lambda x: x.scatter(0, torch.zeros(2, 2, device=x.device), 1),
        lambda x: x[:1].expand(4, 5).scatter_(0, torch.zeros(2, 2, dtype=torch.int64, device=x.device), 1),
    ],
)
def test_wrong_operands_raise_as_on_cpu(call: Callable[[torch.Tensor], torch.Tensor], device: torch.device) -> None:
    with pytest.raises((RuntimeError, IndexError)) as expected:
        call(values(4, 5))
    with pytest.raises(type(expected.value)) as actual:
        call(values(4, 5).to(device))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]
