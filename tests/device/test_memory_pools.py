"""Memory pools of the user: whose memory is whose, by thread, device and stream, and when the driver has it back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from support.graphs import capture

MiB = 1 << 20
mydev = torch.mydev


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    gc.collect()
    mydev.synchronize()
    mydev.empty_cache()
    before = mydev.memory_allocated()
    yield
    gc.collect()
    mydev.synchronize()
    mydev.empty_cache()
    assert mydev.memory_allocated() == before


def empty(mebibytes: int, device: str = "mydev") -> torch.Tensor:
    return torch.empty(mebibytes * MiB, dtype=torch.uint8, device=device)


def pool_of(tensor: torch.Tensor) -> tuple[int, int]:
    """The id of the pool that a tensor's memory is from."""
    address, index = tensor.data_ptr(), tensor.device.index
    for segment in mydev.memory_snapshot():
        if segment["device"] == index and 0 <= address - segment["address"] < segment["total_size"]:
            found: tuple[int, int] = segment["segment_pool_id"]
            return found
    raise AssertionError("the tensor is in no segment")


NONE = (0, 0)


def test_the_example_of_the_documentation() -> None:
    before = mydev.memory_reserved()
    # [docs: pool]
    pool = torch.mydev.MemPool()
    with torch.mydev.use_mem_pool(pool):
        cache = torch.zeros(1 << 20, device="mydev")  # from the pool
    other = torch.zeros(1 << 20, device="mydev")  # not from it
    # [docs: end]
    assert [pool_of(tensor) for tensor in (cache, other)] == [pool.id, NONE]
    del cache, other, pool
    mydev.empty_cache()
    assert mydev.memory_reserved() == before


# --- entering ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1000, 300_000, 3 * MiB, 30 * MiB])
def test_a_thread_allocates_from_the_pool_that_it_has_entered(size: int) -> None:
    pool = mydev.MemPool()
    before = torch.empty(size, dtype=torch.uint8, device="mydev")
    with mydev.use_mem_pool(pool):
        inside = [torch.empty(size, dtype=torch.uint8, device="mydev") for _ in range(3)]
        del before  # what is freed inside returns to where it came from, and is not taken for the pool
        inside.append(torch.empty(size, dtype=torch.uint8, device="mydev"))
    after = torch.empty(size, dtype=torch.uint8, device="mydev")
    assert {pool_of(tensor) for tensor in inside} == {pool.id}
    assert pool_of(after) == NONE


def test_operators_results_are_the_pools() -> None:
    x = torch.ones(1000, device="mydev")
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        y = (x * 2).relu()
    assert pool_of(y) == pool.id
    assert pool_of(x) == NONE
    assert y.sum().item() == 2000


def test_the_innermost_pool_counts() -> None:
    outer, inner = mydev.MemPool(), mydev.MemPool()
    assert outer.id != inner.id
    with mydev.use_mem_pool(outer):
        first = empty(1)
        with mydev.use_mem_pool(inner):
            second = empty(1)
            with mydev.use_mem_pool(outer):
                third = empty(1)
        fourth = empty(1)
    assert [pool_of(tensor) for tensor in (first, second, third, fourth)] == [outer.id, inner.id, outer.id, outer.id]


def test_a_pool_is_left_when_something_raises() -> None:
    pool = mydev.MemPool()
    with pytest.raises(KeyError), mydev.use_mem_pool(pool):
        raise KeyError("own")
    assert pool_of(empty(1)) == NONE
    assert pool.use_count() == 1


def test_other_threads_are_not_affected() -> None:
    pool, tensors = mydev.MemPool(), []

    def work() -> None:
        tensors.append(torch.ones(1000, device="mydev"))

    with mydev.use_mem_pool(pool):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert pool_of(tensors[0]) == NONE


def test_a_thread_may_end_inside_of_a_pool() -> None:
    pool = mydev.MemPool()

    def work() -> None:
        mydev.use_mem_pool(pool).__enter__()
        torch.ones(1000, device="mydev")

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    gc.collect()
    assert pool.use_count() == 1


def test_a_pool_is_left_on_the_thread_that_entered_it() -> None:
    pool = mydev.MemPool()
    with pytest.raises(RuntimeError, match=rf"has not entered pool \({pool.id[0]}, {pool.id[1]}\)"):
        pool._leave(0)


def test_streams_have_their_own_memory_in_a_pool() -> None:
    pool, side = mydev.MemPool(), mydev.Stream()
    with mydev.use_mem_pool(pool):
        address = empty(1).data_ptr()
        with mydev.stream(side):
            other = empty(1)
        assert other.data_ptr() != address
        assert empty(1).data_ptr() == address
    assert pool_of(other) == pool.id
    assert {segment["stream"] for segment in pool.snapshot()} == {0, side.stream_id}


@pytest.mark.devices(2)
def test_a_pool_is_entered_on_one_device() -> None:
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool, device="mydev:1"):
        here, there = empty(1, "mydev:0"), empty(1, "mydev:1")
    assert (pool_of(here), pool_of(there)) == (NONE, pool.id)


def test_gradients_of_a_backward_pass_are_the_pools() -> None:
    """Autograd's multithreading is off where the device is used: the pass is this thread's."""
    x = torch.ones(1000, device="mydev", requires_grad=True)
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        (x * 3).sum().backward()
    assert x.grad is not None
    assert pool_of(x.grad) == pool.id


# --- giving back ------------------------------------------------------------------------------------------------------


def test_freed_memory_stays_in_the_pool() -> None:
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        address = empty(3).data_ptr()
    mydev.synchronize()
    mydev.empty_cache()
    outside = empty(3)
    assert outside.data_ptr() != address
    with mydev.use_mem_pool(pool):
        assert empty(3).data_ptr() == address


def test_memory_goes_back_when_the_pool_is_gone() -> None:
    before = mydev.memory_reserved()
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        empty(3)
        torch.empty(100, device="mydev")
    assert mydev.memory_reserved() > before
    del pool
    assert mydev.memory_reserved() == before


def test_tensors_outlive_their_pool() -> None:
    before = mydev.memory_reserved()
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        kept = torch.full((MiB,), 7.0, device="mydev")
        empty(30)
    del pool
    another = mydev.MemPool()
    with mydev.use_mem_pool(another):
        others = [torch.zeros(MiB, device="mydev") for _ in range(4)]
    assert kept.eq(7).all().item()
    assert another.id not in {pool_of(kept)}
    assert pool_of(others[0]) == another.id
    del kept, others, another
    mydev.synchronize()
    mydev.empty_cache()
    assert mydev.memory_reserved() == before


def test_a_pool_lives_while_it_is_entered() -> None:
    pool = mydev.MemPool()
    name = pool.id
    assert pool.use_count() == 1
    with mydev.use_mem_pool(pool):
        assert pool.use_count() == 2
        with mydev.use_mem_pool(pool):
            assert pool.use_count() == 3
        del pool
        tensor = empty(1)
        assert pool_of(tensor) == name


def test_recorded_streams_keep_memory_of_a_pool() -> None:
    pool, side = mydev.MemPool(), mydev.Stream()
    with mydev.use_mem_pool(pool):
        source = torch.arange(MiB, dtype=torch.float32, device="mydev")
    side.wait_stream(mydev.current_stream())
    with mydev.stream(side):
        doubled = source * 2
    source.record_stream(side)
    doubled.record_stream(mydev.current_stream())
    del source
    with mydev.use_mem_pool(pool):
        torch.zeros(MiB, device="mydev")
    mydev.current_stream().wait_stream(side)
    torch.testing.assert_close(doubled.cpu(), torch.arange(MiB, dtype=torch.float32) * 2)


# --- out of memory ----------------------------------------------------------------------------------------------------


@pytest.fixture
def limit() -> Iterator[None]:
    """Limits the process to about 256 MiB of device memory."""
    mydev.set_per_process_memory_fraction(256 * MiB / mydev.mem_get_info()[1])
    yield
    mydev.set_per_process_memory_fraction(1.0)


@pytest.mark.usefixtures("limit")
def test_out_of_memory_tells_of_pools() -> None:
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        empty(150)
    with pytest.raises(
        torch.OutOfMemoryError, match=r"150\.00 MiB is in private pools .*with 150\.00 MiB unused there"
    ):
        empty(150)
    with mydev.use_mem_pool(pool):
        empty(150)


@pytest.mark.usefixtures("limit")
def test_a_pool_can_be_the_last_resort() -> None:
    pool = mydev.MemPool(use_on_oom=True)
    with mydev.use_mem_pool(pool):
        empty(150)
    lent = empty(150)
    assert pool_of(lent) == pool.id
    with pytest.raises(torch.OutOfMemoryError):
        empty(150)
    with mydev.stream(mydev.Stream()), pytest.raises(torch.OutOfMemoryError):
        empty(150)
    address = lent.data_ptr()
    del lent
    with mydev.use_mem_pool(pool):
        assert empty(150).data_ptr() == address


# --- seen from outside ------------------------------------------------------------------------------------------------


def test_a_snapshot_of_a_pool_has_its_segments() -> None:
    pool = mydev.MemPool()
    assert pool.snapshot() == []
    with mydev.use_mem_pool(pool):
        kept = [empty(3), empty(30), torch.empty(100, device="mydev")]
    segments = pool.snapshot()
    assert {segment["segment_pool_id"] for segment in segments} == {pool.id}
    assert {segment["segment_type"] for segment in segments} == {"small", "large"}
    addresses = {block["address"] for segment in segments for block in segment["blocks"]}
    assert {tensor.data_ptr() for tensor in kept} <= addresses
    assert pool.snapshot(include_traces=False) == mydev.memory_snapshot(pool.id)


def test_statistics_count_each_pool() -> None:
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        empty(30)
    key = f"reserved_bytes_by_private_pools.{pool.id[0]}_{pool.id[1]}.large_pool"
    stats = mydev.memory_stats()
    assert stats[f"{key}.current"] == 30 * MiB
    nested = mydev.memory_stats_as_nested_dict()["reserved_bytes_by_private_pools"]
    assert nested[f"{pool.id[0]}_{pool.id[1]}"]["all"]["current"] == 30 * MiB
    del pool
    stats = mydev.memory_stats()
    assert (stats[f"{key}.current"], stats[f"{key}.peak"]) == (0, 30 * MiB)
    mydev.reset_peak_memory_stats()
    assert f"{key}.peak" not in mydev.memory_stats()


@pytest.mark.parametrize("options", [{"allocator": object()}, {"no_split": True}])
def test_what_a_pool_cannot_do_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError, match=f"MemPool: {next(iter(options))}"):
        mydev.MemPool(**options)


# --- graphs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_id", [False, True])
def test_a_graph_captures_with_a_users_pool(by_id: bool) -> None:
    pool = mydev.MemPool()
    x = torch.ones(1 << 16, device="mydev")
    graph, y = capture(lambda: (x * 2).relu() + 1, pool=pool.id if by_id else pool)
    assert graph.pool() == pool.id
    assert pool_of(y) == pool.id
    assert pool.use_count() == 2
    graph.replay()
    assert y.eq(3).all().item()
    del graph
    assert pool.use_count() == 1


def test_a_graphs_pool_is_used_in_a_capture_and_a_users_inside_of_it() -> None:
    outer, inner = mydev.MemPool(), mydev.MemPool()
    x = torch.ones(1000, device="mydev")
    graph = mydev.MyDevGraph()
    with mydev.use_mem_pool(outer), mydev.graph(graph):
        y = x + 1
        with mydev.use_mem_pool(inner):
            z = y * 2
    assert [pool_of(tensor) for tensor in (y, z)] == [graph.pool(), inner.id]
    graph.replay()
    assert z.eq(4).all().item()


def test_a_graph_holds_memory_of_another_pool() -> None:
    pool = mydev.MemPool()
    with mydev.use_mem_pool(pool):
        x = torch.full((1000,), 3.0, device="mydev")
    graph = mydev.MyDevGraph()
    with mydev.graph(graph):
        y = x * 2
    del x
    with mydev.use_mem_pool(pool):
        others = [torch.zeros(1000, device="mydev") for _ in range(20)]
    graph.replay()
    assert y.eq(6).all().item()
    assert all(other.eq(0).all().item() for other in others)
