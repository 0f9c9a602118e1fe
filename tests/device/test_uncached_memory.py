"""torch.mydev.caching_allocator_enable(False): memory is the driver's, and goes back to it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

import torch_mydev  # noqa: F401

MiB = 1 << 20
mydev = torch.mydev


@pytest.fixture(autouse=True)
def _uncached() -> Iterator[None]:
    gc.collect()
    mydev.synchronize()
    mydev.empty_cache()
    mydev.caching_allocator_enable(False)
    yield
    mydev.caching_allocator_enable(True)


@pytest.mark.parametrize("elements", [1, 1000, 3 * MiB])
def test_memory_goes_straight_to_the_driver_while_caching_is_off(elements: int) -> None:
    before, free = mydev.memory_reserved(), mydev.mem_get_info()[0]
    tensor = torch.ones(elements, device="mydev")
    taken = mydev.memory_reserved() - before
    assert 4 * elements <= taken < 4 * elements + 4096
    assert mydev.mem_get_info()[0] == free - taken
    assert tensor.sum().item() == elements
    del tensor
    mydev.synchronize()
    assert (mydev.memory_reserved(), mydev.mem_get_info()[0]) == (before, free)


def test_memory_of_before_is_cached_still() -> None:
    mydev.caching_allocator_enable()
    tensor = torch.ones(1000, device="mydev")
    reserved = mydev.memory_reserved()
    mydev.caching_allocator_enable(False)
    del tensor
    mydev.synchronize()
    assert mydev.memory_reserved() == reserved


@pytest.mark.parametrize("cached", [True, False])
def test_caching_can_be_off_for_a_while(cached: bool) -> None:
    mydev.caching_allocator_enable(cached)
    elements = 16 * MiB  # for which the cache has no room left beside what other tests keep
    reserved = mydev.memory_reserved()
    with pytest.raises(ZeroDivisionError), mydev.caching_allocator_disabled():
        tensor = torch.ones(elements, device="mydev")
        del tensor
        mydev.synchronize()
        assert mydev.memory_reserved() == reserved
        _ = 1 / 0
    tensor = torch.ones(elements, device="mydev")
    del tensor
    mydev.synchronize()
    assert (mydev.memory_reserved() > reserved) == cached


def test_training_without_a_cache_computes_the_same() -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to("mydev")
        optimizer = torch.optim.AdamW(model.parameters())
        inputs, labels = torch.randn(16, 32).to("mydev"), torch.randint(4, (16,)).to("mydev")
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    uncached = losses()
    mydev.caching_allocator_enable()
    assert uncached == losses()


def test_memory_is_not_reused_before_another_stream_has_passed() -> None:
    source = torch.arange(MiB, dtype=torch.float32).to("mydev")
    stream = mydev.Stream()
    stream.wait_stream(mydev.current_stream())
    with mydev.stream(stream):
        doubled = source * 2
    source.record_stream(stream)
    doubled.record_stream(mydev.current_stream())
    del source
    torch.zeros(MiB, device="mydev")
    mydev.current_stream().wait_stream(stream)
    torch.testing.assert_close(doubled.cpu(), torch.arange(MiB, dtype=torch.float32) * 2)


def test_graph_keeps_its_memory_while_caching_is_off() -> None:
    x = torch.ones(1000, device="mydev")
    stream = mydev.Stream()
    stream.wait_stream(mydev.current_stream())
    with mydev.stream(stream):
        torch.relu(x * 2) + 1
    mydev.current_stream().wait_stream(stream)
    graph = mydev.MyDevGraph()
    with mydev.graph(graph):
        y = torch.relu(x * 2) + 1
    x.fill_(3)
    graph.replay()
    torch.testing.assert_close(y.cpu(), torch.full((1000,), 7.0))
