"""Memory of functions that torch.compile made programs of, with generated kernels or without: what calls take, share,
and give back."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from support.like_eager import assert_like_eager

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


BACKENDS = ["mydev_program", "mydev_kernels"]


def compiled(function: Callable[..., Any], backend: str = "mydev_program") -> Callable[..., Any]:
    return torch.compile(function, backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_leaves_its_results_alone(backend: str) -> None:
    run = compiled(lambda x: ((x * 2).exp() @ x.t()).sum(1), backend)
    x = torch.ones(64, 64, device="mydev")
    run(x)
    before = mydev.memory_allocated()
    result = run(x)
    assert mydev.memory_allocated() - before == 256
    del result
    assert mydev.memory_allocated() == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_temporaries_share_memory(backend: str) -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(8):
            x = (x @ x).relu() * 0.1
        return x

    x = torch.ones(256, 256, device="mydev")
    run = compiled(chain, backend)
    run(x)
    mydev.reset_peak_memory_stats()
    before = mydev.memory_allocated()
    run(x)
    assert mydev.max_memory_allocated() - before <= 3 * x.nbytes


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_saved_makes_room_for_gradients(backend: str) -> None:
    weights = [torch.full((256, 256), 1 / 256, device="mydev", requires_grad=True) for _ in range(8)]
    x = torch.ones(256, 256, device="mydev")

    def network(x: Tensor) -> Tensor:
        for weight in weights:
            x = (x @ weight).tanh()
        return x.sum()

    run = compiled(network, backend)
    for _ in range(2):
        for weight in weights:
            weight.grad = None
        loss = run(x)
        mydev.reset_peak_memory_stats()
        before = mydev.memory_allocated()
        loss.backward()
        del loss
    # The eight gradients are never all there together with all that was saved.
    assert mydev.max_memory_allocated() - before <= 4 * x.nbytes
    assert mydev.memory_allocated() - before <= x.nbytes


@pytest.mark.parametrize("backend", BACKENDS)
def test_saved_views_of_one_tensor_are_kept_until_the_last_is_used(backend: str) -> None:
    torch.manual_seed(0)
    vectors, factors = torch.randn(5, 5).to("mydev"), torch.rand(5).to("mydev")
    like_eager = functools.partial(assert_like_eager, torch.linalg.householder_product, backend=backend)
    like_eager(vectors.requires_grad_(), factors.requires_grad_())


#: A function that is compiled, and what finds that there is no memory for it.
OUT_OF_MEMORY = """
import torch, torch_mydev

mydev = torch.mydev
x = torch.ones(256, 1024, device="mydev")  # 1 MiB
run = torch.compile(lambda x: [(x * factor).sum(0) + x for factor in range(8)], backend="{backend}")

def fails(work):
    mydev.empty_cache()
    before = mydev.memory_allocated()
    full = torch.empty(mydev.mem_get_info()[0] - 5 * 2**20, dtype=torch.uint8, device="mydev")
    try:
        work()
    except torch.OutOfMemoryError:
        del full
    mydev.synchronize()
    assert mydev.memory_allocated() == before, mydev.memory_allocated() - before

def works():
    torch.testing.assert_close(run(x)[3], (x * 3).sum(0) + x)
"""


def out_of_memory(backend: str) -> str:
    return OUT_OF_MEMORY.replace("{backend}", backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "moment",
    ["fails(lambda: run(x))", "works(); fails(lambda: run(x))"],
    ids=["first-call", "later-call"],
)
def test_out_of_memory_between_two_steps(run_python: Run, moment: str, backend: str) -> None:
    code = f"{out_of_memory(backend)}\n{moment}\nworks()\nprint('freed')"
    result = run_python(code, compiler=True, MYDEV_DRIVER="host:memory=64M")
    assert result.stdout == "freed\n", result.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_out_of_memory_in_a_capture(run_python: Run, backend: str) -> None:
    code = f"""{out_of_memory(backend)}
def capture():
    graph = mydev.MyDevGraph()
    with mydev.graph(graph):
        results = run(x)
    return graph, results

works()
fails(capture)
assert not mydev.is_current_stream_capturing()
graph, results = capture()
graph.replay()
torch.testing.assert_close(results[3], (x * 3).sum(0) + x)
print("freed")
"""
    result = run_python(code, compiler=True, MYDEV_DRIVER="host:memory=64M")
    assert result.stdout == "freed\n", result.stderr


def test_a_donated_input_is_kept_while_a_view_of_it_is_needed() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    from torch_mydev.compile.program.graph_function import GraphFunction
    from torch_mydev.observe.compile_report import GraphReport

    def function(x: Tensor) -> list[Tensor]:
        view = x.t()
        grown = ((x @ x.t()).exp() @ x).neg()
        later = grown.cumsum(0)  # might lie where x lay
        outside = torch.linalg.svdvals(later @ later.t())  # ends a program, behind which x is not used
        return [view * outside.sum().sign()]

    x = torch.linspace(-0.1, 0.1, 256 * 384, device="mydev").reshape(256, 384)
    (expected,) = function(x)
    graph = make_fx(function, tracing_mode="fake")(x)
    report = GraphReport("backward", "mydev:0")
    run = GraphFunction(graph, torch.device("mydev:0"), report, donated=[0])
    for _ in range(2):
        (actual,) = run([x.clone()])
        assert_close(actual, expected)
    assert report.calls == ["aten._linalg_svd.default"]


def test_memory_of_an_input_that_is_gone() -> None:
    run = compiled(lambda x: x * 2)
    run(torch.ones(6, device="mydev"))
    x = torch.ones(6, device="mydev")
    x.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match="input 0 reaches beyond its storage, which has 8 bytes"):
        run(x)
    assert run(torch.ones(6, device="mydev")).tolist() == [2] * 6
