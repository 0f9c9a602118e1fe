"""Works of collectives: order and waiting, memory that they hold, futures, and how the profiler shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from support import collective_cases as cases
from support.ranks import TIMEOUT, Ranks, device

mydev = torch.mydev


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


@pytest.fixture(scope="module")
def remote_pair() -> Iterator[Ranks]:
    """Ranks whose streams are asynchronous and whose operands travel through pinned memory."""
    ranks = Ranks(2, MYDEV_DRIVER="host:remote,async")
    yield ranks
    ranks.stop()


def wait_on_all_streams(rank: int, size: int, priority: int) -> None:
    dist.barrier()  # whatever a group takes for itself, it has
    streams = [torch.mydev.Stream(device(), priority=priority) for _ in range(33)]
    tensors = []
    for stream in streams:
        with torch.mydev.stream(stream):
            tensor = torch.zeros(200_000, device=device())
            for _ in range(20):  # so that the stream waits before the collective is begun
                tensor.add_(1)
            dist.all_reduce(tensor, async_op=True).wait()
            tensors.append(tensor)
    for _ in range(1_000_000):
        if all(stream.query() for stream in streams):
            break
        os.sched_yield()
    assert all(stream.query() for stream in streams), "a collective waits for a stream that waits for it"
    for tensor in tensors:
        cases.check(tensor, torch.full((200_000,), 20.0 * size))


@pytest.mark.any_driver
@pytest.mark.parametrize("priority", [0, -1])
def test_collectives_without_host_access_use_no_stream_of_the_program(remote_pair: Ranks, priority: int) -> None:
    cases.run(remote_pair, wait_on_all_streams, priority=priority)


def many_in_flight(rank: int, size: int, length: int) -> None:
    tensors = [torch.full((length,), float(rank + i), device=device()) for i in range(30)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(tensors):
        cases.check(tensor, torch.full((length,), float(sum(r + i for r in range(size)))))


@pytest.mark.parametrize("length", cases.LENGTHS)
def test_many_collectives_in_flight_are_waited_for_in_any_order(group: Ranks, length: int) -> None:
    cases.run(group, many_in_flight, length=length)


def drop_everything(rank: int, size: int, op: str) -> None:
    torch.mydev.synchronize()
    before = torch.mydev.memory_allocated()
    for _ in range(10):
        tensor = torch.full((50_000,), float(rank), device=device())
        dist.all_reduce(tensor, cases.op_of(op), async_op=True)
        del tensor
    dist.barrier()  # all of them have met their counterparts; the engine's threads may still hold the last
    torch.mydev.synchronize()
    for _ in range(1_000_000):
        if torch.mydev.memory_allocated() <= before:  # less if they still held earlier cases' then
            return
        os.sched_yield()
    assert torch.mydev.memory_allocated() <= before


@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_memory_stays_until_the_engine_is_done_and_is_then_returned(two: Ranks, op: str) -> None:
    cases.run(two, drop_everything, op=op)


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


@pytest.mark.parametrize("length", cases.LENGTHS)
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
@pytest.mark.parametrize("length", cases.LENGTHS)
def test_futures_carry_results_on_the_device(group: Ranks, length: int, op: str, wait_first: bool) -> None:
    cases.run(group, chain_futures, length=length, op=op, wait_first=wait_first)


def read_future_after_wait(rank: int, size: int, length: int, early: bool) -> None:
    tensor = torch.ones(length, device=device())
    for _ in range(100):  # the engine may be done before the caller, after it, or meanwhile
        work = dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True)
        future = work.get_future() if early else None
        work.wait()
        future = future or work.get_future()
        assert future.done()
        cases.check(future.value()[0], torch.ones(length))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("length", cases.LENGTHS)
def test_the_future_is_complete_after_wait(group: Ranks, length: int, early: bool) -> None:
    """The reducer of DDP reads the value without waiting for the future."""
    cases.run(group, read_future_after_wait, length=length, early=early)


def wait_in_callbacks(rank: int, size: int, length: int) -> None:
    first, second = torch.ones(length, device=device()), torch.ones(length, device=device())

    def then_reduce(_: Any) -> Any:
        return dist.all_reduce(second, dist.ReduceOp.MAX, async_op=True).get_future().wait()

    for _ in range(300):  # whether the engine is done before the caller depends on the threads
        dist.all_reduce(first, dist.ReduceOp.MAX, async_op=True).get_future().then(then_reduce).wait()
    cases.check(second, torch.ones(length))


@pytest.mark.parametrize("length", cases.LENGTHS)
def test_callbacks_may_wait_for_other_collectives(two: Ranks, length: int) -> None:
    cases.run(two, wait_in_callbacks, length=length)


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


@pytest.mark.parametrize("length", cases.LENGTHS)
def test_profiler_shows_collectives_under_the_backends_name(group: Ranks, length: int) -> None:
    cases.run(group, profile_collectives, length=length)


def profile_one_after_the_other(rank: int, size: int, length: int) -> None:
    tensor = torch.ones(length, device=device())
    for _ in range(40):  # the engine's threads may be late in ending what they record
        with torch.profiler.profile():
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
    cases.check(tensor, torch.ones(length))


@pytest.mark.parametrize("length", cases.LENGTHS)
def test_profiler_may_stop_when_a_collective_has_been_waited_for(two: Ranks, length: int) -> None:
    cases.run(two, profile_one_after_the_other, length=length)
