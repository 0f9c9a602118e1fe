"""Collectives against what one process computes: reductions, movements, layouts, sparse tensors, refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from support import collective_cases as cases
from support.checkout import DRIVERS
from support.ranks import Ranks, device

mydev = torch.mydev


@pytest.fixture(scope="module", params=["discrete_driver.so", "discrete_driver.so:devices=2"])
def discrete_pair(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """Ranks whose device memory the host cannot reach."""
    ranks = Ranks(2, MYDEV_DRIVER=str(DRIVERS / request.param))
    yield ranks
    ranks.stop()


# --- collectives against one process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", cases.DTYPES, ids=str)
@pytest.mark.parametrize("op", cases.OPS)
@pytest.mark.parametrize("reduction", cases.REDUCTIONS)
def test_reduction(group: Ranks, reduction: str, op: str, dtype: torch.dtype) -> None:
    if cases.is_defined(op, dtype):
        cases.run(group, cases.REDUCTIONS[reduction], op=op, dtype=dtype)
    else:
        cases.run(group, undefined_reduction, reduction=reduction, op=op, dtype=dtype)


def undefined_reduction(rank: int, size: int, reduction: str, op: str, dtype: torch.dtype) -> None:
    with pytest.raises((RuntimeError, ValueError), match="complex|bool|is for integers"):
        cases.REDUCTIONS[reduction](rank, size, op=op, dtype=dtype)


DEFINED = [(op, dtype) for op in cases.OPS for dtype in cases.DTYPES if cases.is_defined(op, dtype)]


@pytest.mark.parametrize(("op", "dtype"), DEFINED, ids=str)
def test_long_reduction(two: Ranks, op: str, dtype: torch.dtype) -> None:
    cases.run(two, cases.all_reduce, op=op, dtype=dtype, shape=(cases.LENGTHS[1],))


def large_integers(rank: int, size: int, op: str, dtype: torch.dtype, value: int, expected: int) -> None:
    tensor = torch.full((4,), value, dtype=dtype, device=device())
    dist.all_reduce(tensor, cases.op_of(op))
    assert tensor.tolist() == [expected] * 4


@pytest.mark.parametrize(
    ("op", "dtype", "value", "expected"),
    [
        ("AVG", torch.uint64, 2**62 + 1, 2**62 + 1),  # the sum is negative as a signed number
        ("AVG", torch.uint64, 2**63 - 1, 2**63 - 1),
        ("PREMUL_SUM", torch.int64, 2**40 + 1, 2 * int(cases.FACTOR) * (2**40 + 1)),
        ("PREMUL_SUM", torch.int32, 2**24 + 1, 2 * int(cases.FACTOR) * (2**24 + 1)),
    ],
)
def test_large_integers_are_exact(two: Ranks, op: str, dtype: torch.dtype, value: int, expected: int) -> None:
    cases.run(two, large_integers, op=op, dtype=dtype, value=value, expected=expected)


def equal_on_all_ranks(rank: int, size: int, length: int) -> None:
    tensor = torch.rand(length, generator=torch.Generator().manual_seed(rank)).to(device())
    dist.all_reduce(tensor)
    first = tensor.clone()
    dist.broadcast(first, src=0)
    assert torch.equal(tensor, first)


@pytest.mark.parametrize("length", cases.LENGTHS)
def test_sums_have_the_same_bits_on_all_ranks(group: Ranks, length: int) -> None:
    cases.run(group, equal_on_all_ranks, length=length)


@pytest.mark.parametrize("dtype", cases.DTYPES, ids=str)
@pytest.mark.parametrize("movement", cases.MOVEMENTS)
def test_movement(group: Ranks, movement: str, dtype: torch.dtype) -> None:
    cases.run(group, cases.MOVEMENTS[movement], dtype=dtype)


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0, 3), (3, 5), (70_000,)], ids=str)
@pytest.mark.parametrize("collective", [*cases.REDUCTIONS, *cases.MOVEMENTS])
def test_shapes(group: Ranks, collective: str, shape: tuple[int, ...]) -> None:
    if collective in cases.REDUCTIONS:
        cases.run(group, cases.REDUCTIONS[collective], op="SUM", dtype=torch.float32, shape=shape)
    else:
        cases.run(group, cases.MOVEMENTS[collective], dtype=torch.float32, shape=shape)


#: More than the piece in which what is copied travels.
LONG = 1_500_001


@pytest.mark.slow
@pytest.mark.parametrize("length", [5, LONG])
@pytest.mark.parametrize("collective", [*cases.REDUCTIONS, *cases.MOVEMENTS])
def test_without_host_access(discrete_pair: Ranks, collective: str, length: int) -> None:
    if collective in cases.REDUCTIONS:
        cases.run(discrete_pair, cases.REDUCTIONS[collective], op="AVG", dtype=torch.float32, shape=(length,))
    else:
        cases.run(discrete_pair, cases.MOVEMENTS[collective], dtype=torch.float32, shape=(length,))


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all_single"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.bfloat16, torch.complex64], ids=str)
def test_dtypes_without_host_access(discrete_pair: Ranks, collective: str, dtype: torch.dtype) -> None:
    if collective in cases.REDUCTIONS:
        cases.run(discrete_pair, cases.REDUCTIONS[collective], op="SUM", dtype=dtype)
    else:
        cases.run(discrete_pair, cases.MOVEMENTS[collective], dtype=dtype)


# --- layouts and operands ---------------------------------------------------------------------------------------------


def strided_all_reduce(rank: int, size: int, layout: str) -> None:
    base = cases.values(rank, torch.float32, (6, 4)).to(device())
    views = {
        "transposed": lambda t: t.t(),
        "columns": lambda t: t[:, 1:3],
        "every second": lambda t: t[::2],
        "with offset": lambda t: t[2:],
        "scalar": lambda t: t[3, 2],
        "channels last": lambda t: t.view(1, 2, 3, 4).to(memory_format=torch.channels_last),
    }
    tensor = views[layout](base)
    untouched = base.clone()
    dist.all_reduce(tensor)
    originals = [cases.values(r, torch.float32, (6, 4)) for r in range(size)]
    cases.check(tensor, sum(views[layout](t) for t in originals))
    if layout != "channels last":  # which is a copy
        views[layout](untouched).copy_(tensor)
        assert torch.equal(base, untouched)  # nothing beside the view was written


@pytest.mark.parametrize("layout", ["transposed", "columns", "every second", "with offset", "scalar", "channels last"])
def test_strided_operands_are_reduced_in_place(group: Ranks, layout: str) -> None:
    cases.run(group, strided_all_reduce, layout=layout)


def strided_broadcast_and_gather(rank: int, size: int) -> None:
    tensor = cases.values(rank, torch.float32, (4, 6)).to(device()).t()
    outputs = [torch.zeros(4, 6, device=device()).t() for _ in range(size)]
    dist.all_gather(outputs, tensor)
    for source, output in enumerate(outputs):
        cases.check(output, cases.values(source, torch.float32, (4, 6)).t())
    dist.broadcast(tensor, src=0)
    cases.check(tensor, cases.values(0, torch.float32, (4, 6)).t())


def test_strided_operands_are_moved(group: Ranks) -> None:
    cases.run(group, strided_broadcast_and_gather)


def gather_into_one_tensor(rank: int, size: int) -> None:
    is_root = rank == size - 1
    tensor = cases.values(rank, torch.float32, (4, 6)).to(device()).t()
    output = torch.zeros(size, 6, 4, device=device()) if is_root else None
    dist.gather_single(tensor, output, dst=size - 1)
    if output is not None:
        cases.check(output, torch.stack([cases.values(source, torch.float32, (4, 6)).t() for source in range(size)]))


if hasattr(dist, "gather_single"):  # torch 2.14 and newer

    def test_gather_into_one_tensor(group: Ranks) -> None:
        cases.run(group, gather_into_one_tensor)


def gather_tensors_of_several_sizes(rank: int, size: int) -> None:
    outputs = [torch.empty(r + 1, device=device()) for r in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank), device=device()))
    for source, output in enumerate(outputs):
        cases.check(output, torch.full((source + 1,), float(source)))


def test_all_gather_takes_tensors_of_several_sizes(group: Ranks) -> None:
    cases.run(group, gather_tensors_of_several_sizes)


def scatter_reductions_of_several_sizes(rank: int, size: int) -> None:
    inputs = [torch.full((part + 1,), float(rank), device=device()) for part in range(size)]
    output = torch.empty(rank + 1, device=device())
    dist.reduce_scatter(output, inputs)
    cases.check(output, torch.full((rank + 1,), float(sum(range(size)))))


def test_reduce_scatter_takes_tensors_of_several_sizes(group: Ranks) -> None:
    cases.run(group, scatter_reductions_of_several_sizes)


def zero_copies(rank: int, size: int) -> None:
    tensor = torch.ones(1000, device=device())
    address = tensor.data_ptr()
    torch.mydev.reset_peak_memory_stats()
    before = torch.mydev.max_memory_allocated()
    dist.all_reduce(tensor)
    torch.mydev.synchronize()
    assert tensor.data_ptr() == address
    assert torch.mydev.max_memory_allocated() == before


def test_memory_is_where_it_was(two: Ranks) -> None:
    cases.run(two, zero_copies)


def refuse(rank: int, size: int, operands: str, message: str) -> None:
    place = device()
    here = torch.ones(2, device=place)
    calls = {
        "cpu": lambda: dist.all_reduce(torch.ones(2)),
        "mixed devices": lambda: dist.all_gather([here.clone(), torch.ones(2)], here),
        "mixed dtypes": lambda: dist.all_gather([here.clone(), here.int()], here),
        "sizes": lambda: dist.all_gather_single(torch.ones(2 * size + 1, device=place), here),
        "own size": lambda: dist.all_gather([torch.ones(3, device=place)] * size, here),
        "count": lambda: dist.all_to_all([here.clone()] * (size + 1), [here] * (size + 1)),
        "several": lambda: dist.distributed_c10d._get_default_group().allreduce([here, here.clone()]).wait(),
    }
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message):
        calls[operands]()


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ("cpu", "No backend type associated with device type cpu"),
        ("mixed devices", "expected .*tensors on mydev|same device"),
        ("mixed dtypes", "dtype|of Float"),
        ("sizes", "5 elements, expected 2 for each of 2 ranks"),
        ("own size", "has 3 elements, the input 2"),
        ("count", "one for each rank, got 3"),
        ("several", "expected one tensor, got 2"),
    ],
)
def test_wrong_operands_are_refused(two: Ranks, operands: str, message: str) -> None:
    cases.run(two, refuse, operands=operands, message=message)


# --- sparse tensors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16, torch.int64], ids=str)
@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_sparse_all_reduce(group: Ranks, op: str, dtype: torch.dtype) -> None:
    cases.run(group, cases.reduce_sparse, op=op, dtype=dtype)


def test_sparse_all_reduce_of_ranks_without_elements(group: Ranks) -> None:
    cases.run(group, cases.reduce_empty_sparse)


def test_sparse_all_reduce_without_host_access(discrete_pair: Ranks) -> None:
    cases.run(discrete_pair, cases.reduce_sparse, op="SUM", dtype=torch.float32)


def refuse_sparse(rank: int, size: int) -> None:
    tensor = cases.sparse_part(rank, torch.float32).to(device())
    with pytest.raises(RuntimeError, match="sparse tensors .* have no such reduction"):
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
    with pytest.raises(NotImplementedError, match="no view as real numbers"):
        dist.all_reduce(tensor.to(torch.complex64))
    with pytest.raises(NotImplementedError, match="c10d::broadcast_: neither .* nor the CPU has a kernel for sparse"):
        dist.broadcast(tensor, 0)
    dist.barrier()


def test_other_collectives_refuse_sparse_tensors(two: Ranks) -> None:
    cases.run(two, refuse_sparse)
