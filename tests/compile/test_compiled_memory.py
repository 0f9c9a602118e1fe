"""Memory of compiled graphs: nothing is copied, nothing is kept, inputs are freed on the way; threads share a graph."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from support.like_eager import graphs, mlp

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


@pytest.mark.host_access
def test_nothing_is_copied_and_nothing_is_kept() -> None:
    model = mlp()
    x = torch.ones(3, 8, device="mydev")
    run = torch.compile(model)
    run(x).sum().backward()
    assert [graph.copies for graph in graphs()] == [0, 0]
    model.zero_grad()
    before = mydev.memory_allocated()
    result = run(x)
    assert mydev.memory_allocated() > before
    del result
    assert mydev.memory_allocated() == before
    weights = sum(p.untyped_storage().nbytes() for p in model.parameters())
    del model, run
    torch._dynamo.reset()
    assert mydev.memory_allocated() <= before - weights


@pytest.mark.host_access
def test_memory_of_inputs_is_freed_within_the_graph() -> None:
    size = 1 << 20

    def chain(x: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.ops.aten.sort(x)[0]  # not fused: one buffer after the other
        return x

    run = torch.compile(chain, fullgraph=True)
    run(torch.rand(size, device="mydev"))
    mydev.synchronize()
    before = mydev.memory_allocated()
    mydev.reset_peak_memory_stats()
    run(torch.rand(size, device="mydev"))
    assert mydev.max_memory_allocated() - before < 8 * 4 * size  # with all its results at once, the chain needs 13


def test_threads_may_call_one_graph() -> None:
    model = mlp()
    run = torch.compile(model)
    inputs = [torch.full((3, 8), float(i), device="mydev") for i in range(4)]
    with torch.no_grad():
        expected = [model(x) for x in inputs]
        run(inputs[0])
    results: dict[int, list[Tensor]] = {}

    def work(i: int) -> None:
        with torch.no_grad():
            results[i] = [run(inputs[i]) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.testing.assert_close(results, {i: [expected[i]] * 20 for i in range(len(inputs))})
