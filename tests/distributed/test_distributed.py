"""torch.distributed on the device: collectives, order and waiting, transfers, groups, the choice of the backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable

from support import collective_cases as cases
from support.checkout import DRIVERS
from support.ranks import TIMEOUT, Ranks, device

mydev = torch.mydev


@pytest.fixture
def pair(two: Ranks) -> Ranks:
    return two


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


#: As float32, one that is gathered and then reduced, and one that the engine reduces; the latter in any dtype.
LENGTHS = [1000, 140_001]


DEFINED = [(op, dtype) for op in cases.OPS for dtype in cases.DTYPES if cases.is_defined(op, dtype)]


@pytest.mark.parametrize(("op", "dtype"), DEFINED, ids=str)
def test_long_reduction(pair: Ranks, op: str, dtype: torch.dtype) -> None:
    cases.run(pair, cases.all_reduce, op=op, dtype=dtype, shape=(LENGTHS[1],))


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
def test_large_integers_are_exact(pair: Ranks, op: str, dtype: torch.dtype, value: int, expected: int) -> None:
    cases.run(pair, large_integers, op=op, dtype=dtype, value=value, expected=expected)


def equal_on_all_ranks(rank: int, size: int, length: int) -> None:
    tensor = torch.rand(length, generator=torch.Generator().manual_seed(rank)).to(device())
    dist.all_reduce(tensor)
    first = tensor.clone()
    dist.broadcast(first, src=0)
    assert torch.equal(tensor, first)


@pytest.mark.parametrize("length", LENGTHS)
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


@pytest.mark.parametrize("length", [5, LONG])
@pytest.mark.parametrize("collective", [*cases.REDUCTIONS, *cases.MOVEMENTS])
def test_without_host_access(discrete_pair: Ranks, collective: str, length: int) -> None:
    if collective in cases.REDUCTIONS:
        cases.run(discrete_pair, cases.REDUCTIONS[collective], op="AVG", dtype=torch.float32, shape=(length,))
    elif length == 5 or "uneven" not in collective:
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


def test_memory_is_where_it_was(pair: Ranks) -> None:
    cases.run(pair, zero_copies)


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
def test_wrong_operands_are_refused(pair: Ranks, operands: str, message: str) -> None:
    cases.run(pair, refuse, operands=operands, message=message)


# --- order and waiting ------------------------------------------------------------------------------------------------


def follow_earlier_work(rank: int, size: int, side: bool) -> None:
    place = device()
    stream = torch.mydev.Stream(place) if side else torch.mydev.current_stream(place)
    with torch.mydev.stream(stream):
        tensor = torch.zeros(200_000, device=place)
        for _ in range(20):
            tensor.add_(1)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        tensor.mul_(2)
    stream.synchronize()
    cases.check(tensor, torch.full((200_000,), 20.0 * size * 2))


@pytest.mark.parametrize("side", [False, True], ids=["default stream", "another stream"])
def test_collective_runs_in_the_order_of_the_current_stream(group: Ranks, side: bool) -> None:
    cases.run(group, follow_earlier_work, side=side)


def many_in_flight(rank: int, size: int, length: int) -> None:
    tensors = [torch.full((length,), float(rank + i), device=device()) for i in range(30)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(tensors):
        cases.check(tensor, torch.full((length,), float(sum(r + i for r in range(size)))))


@pytest.mark.parametrize("length", LENGTHS)
def test_many_collectives_in_flight_are_waited_for_in_any_order(group: Ranks, length: int) -> None:
    cases.run(group, many_in_flight, length=length)


def drop_everything(rank: int, size: int, op: str) -> None:
    torch.mydev.synchronize()
    before = torch.mydev.memory_allocated()
    for _ in range(10):
        tensor = torch.full((50_000,), float(rank), device=device())
        dist.all_reduce(tensor, cases.op_of(op), async_op=True)
        del tensor
    dist.barrier()  # all of them have met their counterparts; the engine's threads may still be letting go of the last
    torch.mydev.synchronize()
    for _ in range(1_000_000):
        if torch.mydev.memory_allocated() <= before:  # less if they had not let go of earlier cases' either
            return
        os.sched_yield()
    assert torch.mydev.memory_allocated() <= before


@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_memory_stays_until_the_engine_is_done_and_is_then_returned(pair: Ranks, op: str) -> None:
    cases.run(pair, drop_everything, op=op)


def look_at_work(rank: int, size: int, length: int) -> None:
    tensor = torch.ones(length, device=device())
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    work.synchronize()
    work.block_current_stream()
    torch.mydev.synchronize()
    assert work.is_completed()
    assert work.is_success()
    assert work.exception() is None
    assert [t.data_ptr() for t in work.result()] == [tensor.data_ptr()]
    work.wait(TIMEOUT)
    cases.check(tensor, torch.full((length,), float(size)))


@pytest.mark.parametrize("length", LENGTHS)
def test_work_tells_how_it_stands(group: Ranks, length: int) -> None:
    cases.run(group, look_at_work, length=length)


def chain_futures(rank: int, size: int, length: int, op: str, wait_first: bool) -> None:
    tensor = torch.full((length,), float(rank + 1), device=device())
    work = dist.all_reduce(tensor, cases.op_of(op), async_op=True)
    if wait_first:
        work.wait()
    halved = work.get_future().then(lambda future: [future.value()[0] / 2]).wait()
    expected = sum(range(1, size + 1)) / (size if op == "AVG" else 1)
    cases.check(halved[0], torch.full((length,), expected / 2))


@pytest.mark.parametrize("wait_first", [False, True])
@pytest.mark.parametrize("op", ["SUM", "AVG"])
@pytest.mark.parametrize("length", LENGTHS)
def test_futures_carry_results_on_the_device(group: Ranks, length: int, op: str, wait_first: bool) -> None:
    cases.run(group, chain_futures, length=length, op=op, wait_first=wait_first)


def wait_in_callbacks(rank: int, size: int, length: int) -> None:
    first, second = torch.ones(length, device=device()), torch.ones(length, device=device())

    def then_reduce(_: Any) -> Any:
        return dist.all_reduce(second, dist.ReduceOp.MAX, async_op=True).get_future().wait()

    for _ in range(300):  # whether the engine is done before the caller depends on the threads
        dist.all_reduce(first, dist.ReduceOp.MAX, async_op=True).get_future().then(then_reduce).wait()
    cases.check(second, torch.ones(length))


@pytest.mark.parametrize("length", LENGTHS)
def test_callbacks_may_wait_for_other_collectives(pair: Ranks, length: int) -> None:
    cases.run(pair, wait_in_callbacks, length=length)


def profile_collectives(rank: int, size: int, length: int) -> None:
    tensor, whole = torch.ones(length, device=device()), torch.empty(size * length, device=device())
    backend = dist.get_default_backend_for_device(device())
    with torch.profiler.profile() as profile:
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
        dist.all_gather_single(whole, tensor)
        torch.mydev.synchronize()
    events = [event for event in profile.events() if event.name.startswith(backend)]
    assert [event.name.removeprefix(f"{backend}:") for event in events] == ["all_reduce"] * 2 + [
        "all_gather_into_tensor"
    ]


@pytest.mark.parametrize("length", LENGTHS)
def test_profiler_shows_collectives_under_the_backends_name(group: Ranks, length: int) -> None:
    cases.run(group, profile_collectives, length=length)


def profile_one_after_the_other(rank: int, size: int, length: int) -> None:
    tensor = torch.ones(length, device=device())
    for _ in range(40):  # the engine's threads may be late in ending what they record
        with torch.profiler.profile():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
    cases.check(tensor, torch.ones(length))


@pytest.mark.parametrize("length", LENGTHS)
def test_profiler_may_stop_when_a_collective_has_been_waited_for(pair: Ranks, length: int) -> None:
    cases.run(pair, profile_one_after_the_other, length=length)


# --- coalescing, groups, objects --------------------------------------------------------------------------------------


def coalesce(rank: int, size: int, collective: str) -> None:
    place = device()
    tensors = [torch.full((i + 1,), float(rank), device=place) for i in range(3)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        if collective == "all_reduce":
            outputs = tensors
            expected = [torch.full((i + 1,), float(sum(range(size)))) for i in range(3)]
            for tensor in tensors:
                dist.all_reduce(tensor)
        elif collective == "all_gather_single":
            outputs = [torch.empty(size * (i + 1), device=place) for i in range(3)]
            expected = [torch.arange(size).repeat_interleave(i + 1).float() for i in range(3)]
            for output, tensor in zip(outputs, tensors, strict=True):
                dist.all_gather_single(output, tensor)
        else:
            outputs = [torch.empty(i + 1, device=place) for i in range(3)]
            expected = [torch.full((i + 1,), float(sum(range(size)))) for i in range(3)]
            for output, tensor in zip(outputs, tensors, strict=True):
                dist.reduce_scatter_single(output, tensor.repeat(size))
    manager.wait()
    for output, value in zip(outputs, expected, strict=True):
        cases.check(output, value)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather_single", "reduce_scatter_single"])
def test_coalescing(group: Ranks, collective: str) -> None:
    cases.run(group, coalesce, collective=collective)


def coalesce_different_collectives(rank: int, size: int) -> None:
    place = device()
    first, second = torch.full((4,), float(rank), device=place), torch.full((4,), float(rank), device=place)
    default = dist.distributed_c10d._get_default_group()
    with dist.distributed_c10d._coalescing_manager(device=place, async_ops=True) as manager:
        default.allreduce([first])
        default.broadcast(second, 1)
    assert len(manager.works) == 1
    manager.works[0].get_future().wait()
    manager.wait()
    cases.check(first, torch.full((4,), float(sum(range(size)))))
    cases.check(second, torch.ones(4))


def test_one_work_stands_for_coalesced_collectives(group: Ranks) -> None:
    cases.run(group, coalesce_different_collectives)


def all_reduce_coalesced(rank: int, size: int) -> None:
    tensors = [torch.ones(count, dtype=torch.int16, device=device()) for count in (3, 0, 5)]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        cases.check(tensor, torch.full_like(tensor, size, device="cpu"))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_all_reduce_coalesced(group: Ranks) -> None:
    cases.run(group, all_reduce_coalesced)


def use_new_groups(rank: int, size: int) -> None:
    half = [r for r in range(size) if r % 2 == rank % 2]
    groups = [dist.new_group([r for r in range(size) if r % 2 == parity]) for parity in (0, 1)]
    tensor = torch.full((3,), float(rank), device=device())
    dist.all_reduce(tensor, group=groups[rank % 2])
    cases.check(tensor, torch.full((3,), float(sum(half))))
    dist.destroy_process_group(groups[rank % 2])


def test_new_group(group: Ranks) -> None:
    cases.run(group, use_new_groups)


def use_split_group(rank: int, size: int) -> None:
    default = dist.distributed_c10d._get_default_group()
    default.bound_device_id = device()  # as init_process_group(device_id=...) does
    try:
        pairs = [[r, r + 1] for r in range(0, size, 2)]
        part = dist.split_group(split_ranks=pairs)
        assert part is not None and part.size() == 2
        tensor = torch.full((3,), float(rank), device=device())
        dist.all_reduce(tensor, group=part)
        cases.check(tensor, torch.full((3,), float(sum(pairs[rank // 2]))))
    finally:
        default.bound_device_id = None


def test_split_group(group: Ranks) -> None:
    cases.run(group, use_split_group)


def share_objects(rank: int, size: int) -> None:
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": r} for r in range(size)]
    objects = [("from", rank)]
    dist.broadcast_object_list(objects, src=1)
    assert objects == [("from", 1)]
    part: list[Any] = [None]
    dist.scatter_object_list(part, [f"part {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert part == [f"part {rank}"]
    collected: list[Any] | None = [None] * size if rank == 0 else None
    dist.gather_object(rank, collected)
    assert collected in (None, list(range(size)))
    if rank == 0:
        dist.send_object_list(["one", 2], 1)
    elif rank == 1:
        received: list[Any] = [None, None]
        dist.recv_object_list(received, 0)
        assert received == ["one", 2]


def test_objects(group: Ranks) -> None:
    cases.run(group, share_objects)


def wait_at_barriers(rank: int, size: int) -> None:
    dist.barrier()
    dist.barrier(async_op=True).wait()
    dist.barrier(device_ids=[device().index])
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=TIMEOUT, wait_all_ranks=True)


def test_barriers(group: Ranks) -> None:
    cases.run(group, wait_at_barriers)


def miss_a_monitored_barrier(rank: int, size: int) -> None:
    part = dist.new_group(list(range(size)))
    if rank == 0:
        with pytest.raises(RuntimeError, match=f"Rank {size - 1} failed to pass monitoredBarrier in 50 ms"):
            dist.monitored_barrier(part, timeout=timedelta(milliseconds=50))
    elif rank < size - 1:
        with pytest.raises(RuntimeError, match="monitoredBarrier"):
            dist.monitored_barrier(part, timeout=timedelta(milliseconds=50))
    dist.barrier()


def test_monitored_barrier_names_the_rank_that_is_missing(group: Ranks) -> None:
    cases.run(group, miss_a_monitored_barrier)


# --- functional collectives -------------------------------------------------------------------------------------------


def functional_values(rank: int, size: int) -> None:
    tensor = torch.full((2 * size,), float(rank), device=device())
    world = dist.distributed_c10d._get_default_group()
    cases.check(functional.all_reduce(tensor, "sum", world) + 0, torch.full((2 * size,), float(sum(range(size)))))
    cases.check(
        functional.all_gather_tensor(tensor, 0, world) + 0, torch.arange(size).repeat_interleave(2 * size).float()
    )
    cases.check(
        functional.reduce_scatter_tensor(tensor, "avg", 0, world) + 0, torch.full((2,), sum(range(size)) / size)
    )
    cases.check(
        functional.all_to_all_single(tensor, None, None, world) + 0, torch.arange(size).repeat_interleave(2).float()
    )


def test_functional_collectives(group: Ranks) -> None:
    cases.run(group, functional_values)


def functional_gradients(rank: int, size: int, collective: str) -> None:
    leaf = torch.full((size,), float(rank + 1), device=device(), requires_grad=True)
    world = dist.distributed_c10d._get_default_group()
    calls = {
        "all_reduce": lambda: differentiable.all_reduce(leaf.clone()),
        "all_gather": lambda: torch.stack(differentiable.all_gather(leaf)),
        "all_to_all_single": lambda: differentiable.all_to_all_single(torch.empty_like(leaf), leaf),
        "reduce_scatter": lambda: differentiable.reduce_scatter(leaf.new_empty(1), list(leaf.split(1))),
        "broadcast": lambda: differentiable.broadcast(leaf, 1),
        "all_gather_tensor_autograd": lambda: functional.all_gather_tensor_autograd(leaf, 0, world),
        "all_to_all_single_autograd": lambda: functional.all_to_all_single_autograd(leaf, None, None, world),
        "reduce_scatter_tensor_autograd": lambda: functional.reduce_scatter_tensor_autograd(leaf, "sum", 0, world),
    }
    (calls[collective]() * (rank + 1)).sum().backward()
    weights = torch.arange(1.0, size + 1)
    total = weights.sum().expand(size)
    if collective.startswith(("all_to_all", "reduce_scatter")):  # each element goes to the rank of its number
        cases.check(leaf.grad, weights)
    elif collective == "broadcast":
        cases.check(leaf.grad, total if rank == 1 else torch.zeros(size))
    else:
        cases.check(leaf.grad, total)


GRADIENTS = [
    "all_reduce",
    "all_gather",
    "all_to_all_single",
    "reduce_scatter",
    "broadcast",
    "all_gather_tensor_autograd",
    "all_to_all_single_autograd",
    "reduce_scatter_tensor_autograd",
]


@pytest.mark.parametrize("collective", GRADIENTS)
def test_gradients_of_collectives(group: Ranks, collective: str) -> None:
    cases.run(group, functional_gradients, collective=collective)


# --- choosing the backend ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "devices"),
    [
        ("", ["mydev"]),
        ("device_id=torch.device('mydev:0')", ["mydev"]),
        ("backend='mydev_gloo'", ["mydev"]),
        ("backend='cpu:gloo,mydev:mydev_gloo'", ["cpu", "mydev"]),
        ("backend='gloo'", ["cpu"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_backend_is_chosen(run_python: Any, options: str, devices: list[str]) -> None:
    code = f"""
import torch, torch_mydev, torch.distributed as dist
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1{"," if options else ""} {options})
for device in {devices}:
    tensor = torch.ones(3, device=device)
    dist.all_reduce(tensor)
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device(device))
    print(device, tensor.sum().item(), backend.name())
dist.destroy_process_group()
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    names = {"cpu": "gloo", "mydev": "mydev_gloo"}
    assert result.stdout.split("\n")[:-1] == [f"{device} 3.0 {names[device]}" for device in devices]


def test_vendors_backend_takes_the_place_of_the_default(run_python: Any) -> None:
    code = """
import torch, torch.distributed as dist, torch_mydev
from torch_mydev import distributed
from torch.distributed.distributed_c10d import ProcessGroupGloo

def create_engine(store, rank, size, timeout, group_name, global_ranks):
    return ProcessGroupGloo(store, rank, size, timeout=timeout)

def create(options, backend_options):
    return distributed.over_host_backend(create_engine, options)

distributed.register_backend("acmeccl", create)
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
print(dist.distributed_c10d._get_default_group()._device_types, dist.get_backend_config())
tensor = torch.ones(3, device="mydev")
dist.all_reduce(tensor)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert "mydev:acmeccl" in result.stdout


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


def test_other_collectives_refuse_sparse_tensors(pair: Ranks) -> None:
    cases.run(pair, refuse_sparse)
