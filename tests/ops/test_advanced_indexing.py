"""index and index_put by tensors and masks, nonzero, masked_select, index_add, index_copy and index_fill."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from support.parity import (
    VIEWS,
    assert_gradient_parity,
    assert_no_copies,
    assert_same,
    is_out_of_reach,
    raises_in_a_kernel,
)

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64]
ADDABLE = [dtype for dtype in DTYPES if dtype != torch.bool]

Index = tuple[torch.Tensor | slice | int | None, ...]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


def mask(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.4


ROWS = torch.tensor([3, 0, -1, 3])
PAIRS = torch.tensor([[1, -2], [0, 1]])
ALL = slice(None)

#: Indices of a tensor of sizes 4, 5, 6.
INDICES: dict[str, Index] = {
    "rows": (ROWS,),
    "int32": (ROWS.int(),),
    "a number": (torch.tensor(2),),
    "nothing": (torch.empty(0, dtype=torch.int64),),
    "columns": (ALL, ROWS),
    "last dimension": (ALL, ALL, PAIRS),
    "a matrix of rows": (PAIRS,),
    "a transposed matrix": (PAIRS.t(),),
    "two dimensions": (ROWS, ROWS),
    "three dimensions": (PAIRS, PAIRS, PAIRS),
    "broadcast": (ROWS[:, None], PAIRS[0]),
    "apart": (ROWS, ALL, ROWS),
    "apart, broadcast": (ROWS[:, None], ALL, PAIRS[0]),
    "a new dimension": (None, ROWS),
    "mask of rows": (mask(4),),
    "mask of two dimensions": (mask(4, 5),),
    "mask of all": (mask(4, 5, 6),),
    "mask of the last": (ALL, ALL, mask(6)),
    "mask and rows": (mask(4), torch.tensor(1)),
    "empty mask": (torch.zeros(4, dtype=torch.bool),),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_index(index: Index, device: torch.device) -> None:
    assert_no_copies(lambda x, i: x[i], values(4, 5, 6), index, device=device)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_of_any_dtype(dtype: torch.dtype, device: torch.device) -> None:
    assert_no_copies(lambda x, i: x[i, :, i], values(4, 5, 6, dtype=dtype), ROWS, device=device)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("index", [(ROWS,), (ALL, PAIRS), (ROWS[:2], ALL, ROWS[:2])], ids=["rows", "columns", "apart"])
def test_index_of_any_layout(index: Index, view: str, device: torch.device) -> None:
    assert_no_copies(lambda x, i: VIEWS[view](x)[i], values(9, 5, 8), index, device=device)


def test_index_by_tensors_on_the_cpu(device: torch.device) -> None:
    x = values(4, 5)
    assert torch.equal(x.to(device)[ROWS].cpu(), x[ROWS])
    assert torch.equal(x.to(device)[mask(4)].cpu(), x[mask(4)])


def test_index_of_many_rows(device: torch.device) -> None:
    rows = torch.randint(-300, 300, (50_000,), generator=torch.Generator().manual_seed(2))
    assert_no_copies(lambda x, i: x[i], values(300, 3), rows, device=device)


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_gradient_of_index(index: Index, device: torch.device) -> None:
    assert_gradient_parity(lambda x, i: x[i], values(4, 5, 6), index, device=device, native=is_out_of_reach(device))


@pytest.mark.parametrize("bad", [4, -5])
def test_index_out_of_range_raises(bad: int, device: torch.device) -> None:
    with raises_in_a_kernel(IndexError, f"index {bad} is out of bounds for dimension 0 with size 4"):
        values(4, 3).to(device)[torch.tensor([0, bad], device=device)].cpu()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, rows, _: x[rows],
        lambda x, rows, _: x[:, rows],
        lambda x, _, mask: x[mask],
        lambda x, rows, _: x.__setitem__(rows, 5),
        lambda x, _, mask: x.__setitem__(mask, 5),
        lambda x, rows, _: x.index_put_((rows,), torch.tensor(1.0)),
        lambda x, rows, _: x.index_put_((rows,), torch.tensor(1.0), accumulate=True),
        lambda x, rows, _: torch.ops.aten.index.Tensor_out(x, [rows], out=torch.empty(0)),
        lambda x, rows, _: x.__setitem__(rows.cpu(), torch.ones(2, 5, device=rows.device)),
        lambda x, _, mask: x.masked_fill(mask, 1.0),
    ],
)
def test_indices_on_the_device_do_not_reach_into_tensors_of_the_cpu(
    call: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object], device: torch.device
) -> None:
    x, before = values(4, 5), values(4, 5)
    with pytest.raises(RuntimeError, match="same device"):
        call(x, torch.tensor([0, 1], device=device), torch.ones(4, 5, dtype=torch.bool, device=device))
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x[torch.tensor([0.5], device=x.device)],
        lambda x: x[torch.zeros(3, dtype=torch.bool, device=x.device)],
        lambda x: x[ROWS[:2].to(x.device), ROWS[:3].to(x.device)],
        lambda x: x.index_put_((torch.zeros(2, dtype=torch.int64, device=x.device),), x.new_zeros(3, 5)),
        lambda x: x.index_put_((torch.zeros(2, dtype=torch.int64, device=x.device),), x.new_zeros(5).double()),
        lambda x: x.index_add_(0, torch.zeros(2, dtype=torch.int64, device=x.device), x.new_zeros(3, 5)),
        lambda x: x.index_copy_(0, torch.zeros(2, dtype=torch.int64, device=x.device), x.new_zeros(2, 4)),
        lambda x: x.expand(2, 4, 5).index_add_(0, torch.zeros(1, dtype=torch.int64, device=x.device), x[None]),
    ],
)  # fmt: skip
def test_wrong_operands_raise_as_on_cpu(call: Callable[[torch.Tensor], torch.Tensor], device: torch.device) -> None:
    with pytest.raises((RuntimeError, IndexError)) as expected:
        call(values(4, 5))
    with pytest.raises(type(expected.value)) as actual:
        call(values(4, 5).to(device))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


ONCE = torch.tensor([2, 0, -1])
#: Indices that write no two values to one place.
WRITTEN: dict[str, tuple[torch.Tensor | None, ...]] = {
    "a number": (torch.tensor(2),),
    "nothing": (torch.empty(0, dtype=torch.int64),),
    "rows": (ONCE,),
    "columns": (None, ONCE),
    "two dimensions": (ONCE, torch.tensor([0, 4, 4])),
    "apart": (ONCE, None, torch.tensor([0, 4, 4])),
    "mask of rows": (mask(4),),
    "mask of two dimensions": (mask(4, 5),),
    "mask of all": (mask(4, 5, 6),),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("index", WRITTEN.values(), ids=WRITTEN)
def test_index_put(index: tuple[torch.Tensor | None, ...], accumulate: bool, device: torch.device) -> None:
    def function(x: torch.Tensor, i: tuple[torch.Tensor | None, ...]) -> torch.Tensor:
        source = torch.ops.aten.index.Tensor(x, list(i)) * 2
        return torch.ops.aten.index_put(x, list(i), source, accumulate)

    assert_no_copies(function, values(4, 5, 6), index, device=device)


@pytest.mark.parametrize("dtype", ADDABLE)
def test_index_put_adds_up_what_goes_to_one_place(dtype: torch.dtype, device: torch.device) -> None:
    rows = torch.randint(-7, 7, (500,), generator=torch.Generator().manual_seed(2))
    source = torch.randint(-2, 3, (500, 3), generator=torch.Generator().manual_seed(3)).to(dtype)
    assert_no_copies(
        lambda x, i, s: x.index_put((i,), s, accumulate=True), torch.ones(7, 3).to(dtype), rows, source, device=device
    )


def test_half_precision_sums_are_rounded_once(device: torch.device) -> None:
    if not is_out_of_reach(device):
        pytest.skip("needs memory that the host does not reach: the CPU's kernel rounds each time")
    ones = torch.ones(1000, dtype=torch.bfloat16, device=device)
    total = torch.zeros(1, dtype=torch.bfloat16, device=device).index_add(0, torch.zeros_like(ones).long(), ones)
    assert total.item() == 1000


@pytest.mark.parametrize("source", [torch.tensor(7.0), torch.tensor([7.0]), values(6), values(5, 1)])
@pytest.mark.parametrize("index", [(torch.tensor([1, 3]),), (mask(4),)], ids=["rows", "mask"])
def test_index_put_broadcasts_values(index: Index, source: torch.Tensor, device: torch.device) -> None:
    assert_no_copies(lambda x, i, s: x.index_put(i, s), values(4, 5, 6), index, source, device=device)


@pytest.mark.parametrize("view", ["transposed", "offset", "strided"])
def test_assignment_to_any_layout(view: str, device: torch.device) -> None:
    def function(x: torch.Tensor, i: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        part = VIEWS[view](x)
        part[i] = 1.5
        part[:, i] += 2
        part[m] = -1
        return x

    x = values(6, 7, 8)
    assert_no_copies(function, x, torch.tensor([2, 0]), VIEWS[view](x) > 2, device=device)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int8, torch.bfloat16])
def test_nonzero_and_masked_select(dtype: torch.dtype, view: str, device: torch.device) -> None:
    x = (values(6, 5, 8) * mask(6, 5, 8)).to(dtype)
    assert_no_copies(lambda x: VIEWS[view](x).nonzero(), x, device=device)
    assert_no_copies(lambda x, m: VIEWS[view](x).masked_select(VIEWS[view](m)), x, mask(6, 5, 8), device=device)


def test_nonzero_of_many(device: torch.device) -> None:
    assert_no_copies(torch.nonzero, mask(100_000), device=device)
    assert_no_copies(torch.nonzero, torch.zeros(100_000), device=device)
    # Threads write next to each other: the last element of one's part is zero, the first of the other's is not.
    every_third = torch.arange(6 * 16384) % 3 == 0
    assert_no_copies(torch.nonzero, every_third, device=device)
    assert_no_copies(torch.masked_select, torch.arange(6 * 16384), every_third, device=device)


@pytest.mark.parametrize("shape", [(0,), (7,), (3, 40), (2, 3, 50000)])
def test_a_mask_of_all_elements(shape: tuple[int, ...], device: torch.device) -> None:
    x, m = torch.randn(shape), torch.rand(shape) > 0.5
    for view in (lambda t: t, lambda t: t.transpose(0, -1), lambda t: t[::2], lambda t: t[..., ::2]):
        expected = view(x)[view(m)]
        assert torch.equal(view(x.to(device))[view(m.to(device))].cpu(), expected)
        assert torch.equal(view(x.to(device))[view(m)].cpu(), expected)


def test_masked_select_broadcasts_and_has_a_gradient(device: torch.device) -> None:
    assert_gradient_parity(
        lambda x, m: x.masked_select(m), values(4, 5), mask(3, 1, 5), device=device, native=is_out_of_reach(device)
    )


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("view", ["contiguous", "transposed", "strided"])
def test_index_add_copy_and_fill(view: str, dim: int, device: torch.device) -> None:
    index = torch.tensor([3, 0, 2])

    def function(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = VIEWS[view](x)
        source = x.index_select(dim, i) * 3
        return (
            x.index_add(dim, i, source),
            x.index_add(dim, i, source, alpha=-2),
            x.clone().index_add_(dim, i, source),
            x.index_copy(dim, i, source),
            x.clone().index_copy_(dim, i, source),
            x.clone().index_fill_(dim, i, 2.5),
            torch.index_add(x, dim, i, source, out=torch.empty(0, device=x.device)),
        )

    assert_no_copies(function, values(4, 5, 8), index, device=device)


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_index_add_and_select(dim: int, device: torch.device) -> None:
    assert_gradient_parity(
        lambda x, s, i: x.index_add(dim, i, s).index_select(dim, i),
        values(4, 4), values(3, 4) if dim == 0 else values(4, 3), torch.tensor([1, 1, 3]),
        device=device, native=is_out_of_reach(device),
    )  # fmt: skip


def test_last_of_many_rows_for_one_place_stays(device: torch.device) -> None:
    if not is_out_of_reach(device):
        pytest.skip("needs memory that the host does not reach: the CPU's kernel does not promise it")
    places = torch.arange(40_000, device=device) % 10
    source = torch.arange(40_000.0, device=device)[:, None].expand(40_000, 4)
    written = torch.zeros(10, 4, device=device).index_copy(0, places, source)
    assert torch.equal(written.cpu(), torch.arange(39_990.0, 40_000)[:, None].expand(10, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [False, True])
def test_gradient_of_an_embedding_in_half_precision(scale: bool, dtype: torch.dtype, device: torch.device) -> None:
    tokens = torch.randint(0, 9, (40,), generator=torch.Generator().manual_seed(2))
    weight, seed = values(10, 8, dtype=dtype), values(40, 8, dtype=dtype)
    wide = torch.ops.aten.embedding_dense_backward(seed.float(), tokens, 10, 3, scale)
    with_kernel = torch.ops.aten.embedding_dense_backward(seed.to(device), tokens.to(device), 10, 3, scale)
    assert with_kernel.dtype == weight.dtype
    torch.testing.assert_close(with_kernel.cpu(), wide.to(dtype), rtol=0, atol=0)


def read_rows(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i] + x[:, i[:1]]


def write_rows(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.index_put(x, [i], x[i] * 2)


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("function", [read_rows, write_rows])
def test_torchscript(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], trace: bool, device: torch.device
) -> None:
    x, i = torch.randn(4, 5, requires_grad=True), torch.tensor([2, 1, 0, 3])
    here, places = x.detach().to(device).requires_grad_(), i.to(device)
    program = torch.jit.trace(function, (here, places)) if trace else torch.jit.script(function)
    for _ in range(3):  # the executor's stages
        result = program(here, places)
        assert_same(result, function(x, i), device)
        (actual,), (expected,) = (torch.autograd.grad(y.sum(), z) for y, z in ((result, here), (function(x, i), x)))
        assert_same(actual, expected, device)
