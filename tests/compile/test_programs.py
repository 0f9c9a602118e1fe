"""torch.compile by programs of the device, without a compiler of code: backend "mydev_program", on any driver."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import torch_mydev
from support.graphs import capture
from support.like_eager import X, assert_like_eager, graphs, mlp
from support.sample_kernels import OPERATOR_LIBRARY

mydev = torch.mydev
BACKEND = "mydev_program"
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=BACKEND, fullgraph=True, **options)


def calls() -> list[str]:
    """The operators that ran outside of programs."""
    return [name for graph in graphs() for name in graph.calls]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x: (x.sin() + x * 2).relu() / (x * x + 1),
    "reductions": lambda x: (x.sum(0), x.mean(-1, keepdim=True), x.amax(1), x.var(), x.argmax(1)),
    "softmax": lambda x: F.softmax(x @ x.t(), -1).log(),
    "norms": lambda x: F.layer_norm(x, (6,)) + F.rms_norm(x, (6,)),
    "views": lambda x: (x.t()[1:3] * 2, x.reshape(2, 12).flip(0), x.unfold(1, 3, 2).sum(-1)),
    "a view and its base": lambda x: ((y := x * 2), y.t(), y[0]),
    "an input and views of it": lambda x: (x, x.t(), x[1]),
    "writes": lambda x: x.clone().t().mul_(2).index_fill_(0, torch.tensor([1], device=x.device), 3.0),
    "slices written": lambda x: torch.cat([x, x]).index_copy(0, torch.tensor([0], device=x.device), x[:1]),
    "comparisons": lambda x: (x > 0, (x > 0) & (x < 1), torch.where(x > 0, x, -x), x.isnan().any()),
    "integers": lambda x: (x.to(torch.int64) % 3, (x > 0).sum(), x.long() << 1),
    "complex": lambda x: torch.view_as_real((torch.complex(x, x) * 2).conj().resolve_conj()),
    "factories": lambda x: x + torch.arange(6, device=x.device) + torch.full((4, 1), 2.0, device=x.device),
    "numbers": lambda x: (x.pow(2), x + 1e-3, x * True, x.clamp(-1, 1), x.add(x, alpha=3)),
    "dtypes": lambda x: (x.half() * 2, x.bfloat16().sum(), x.double() / 3),
    "sorting": lambda x: x.sort(1)[0] + x.topk(6, 1)[0] + x.cumsum(1),
    "nothing": lambda x: x[:0].exp(),
    "a constant": lambda x: x + torch.tensor([1.0, 2, 3, 4, 5, 6], device=x.device),
    "no kernel": lambda x: torch.linalg.svdvals(x * 2).abs() + 1,
    "values as sizes": lambda x: x[x > 0].exp(),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_gives_what_eager_gives(name: str, grad: bool) -> None:
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        assert_like_eager(FUNCTIONS[name], X.to("mydev").requires_grad_(grad), backend=BACKEND)
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False


@pytest.mark.parametrize(
    "x",
    [
        X.t(),
        X.expand(2, 4, 6),
        X[:, ::2],
        X.flatten()[1:13].reshape(3, 4),  # begins where nothing is aligned
        X.reshape(1, 4, 2, 3).to(memory_format=torch.channels_last),
        X[:0],
        X[0, 0],
    ],
    ids=["transposed", "expanded", "strided", "offset", "channels-last", "empty", "0-dim"],
)
def test_layouts_of_inputs(x: Tensor) -> None:
    base = x.to("mydev")
    if x.dim() and x.numel():
        base = torch.empty_strided(x.shape, x.stride(), device="mydev") if x.stride()[0] else base[:1].expand(x.shape)
        base = base if not x.stride()[0] else base.copy_(x)
    assert_like_eager(lambda y: (y * 2 + 1, y.sum(), y.contiguous()), base, backend=BACKEND)


def test_conjugate_and_negative_views() -> None:
    z = torch.complex(X, X * 2).to("mydev")
    run = compiled(lambda y: y * 2 + 1)
    for view in (z, z.conj(), z.imag, z.conj().imag):
        assert_close(run(view), view * 2 + 1)


def test_trains_as_in_eager_mode() -> None:
    def train(callee: Callable[[nn.Module], Callable[..., Any]]) -> list[Tensor]:
        model = mlp()
        run = callee(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        x = torch.linspace(-1, 1, 24, device="mydev").reshape(3, 8)
        for _ in range(3):
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    assert_close(train(compiled), train(lambda model: model))
    assert [graph.kind for graph in graphs()] == ["forward", "backward"]
    assert calls() == []


@pytest.mark.parametrize("fused", [False, True])
def test_a_compiled_optimizer(fused: bool) -> None:
    def steps(way: Callable[..., Any]) -> list[Tensor]:
        weights = [torch.ones(n, device="mydev", requires_grad=True) for n in (3, 5)]
        optimizer = torch.optim.Adam(weights, lr=0.1, fused=fused)
        step = way(optimizer.step)
        for i in range(3):
            for weight in weights:
                weight.grad = torch.linspace(-1, 2 + i, weight.numel(), device="mydev")
            step()
        return [weight.detach() for weight in weights]

    expected = steps(lambda step: step)
    assert_close(steps(lambda step: torch.compile(step, backend=BACKEND)), expected)


def test_mutated_inputs() -> None:
    def function(x: Tensor, buffer: Tensor) -> Tensor:
        buffer.mul_(2).add_(x)
        x.t()[0] = 7
        return buffer.sum()

    x, buffer = torch.ones(2, 2, device="mydev"), torch.ones(2, 2, device="mydev")
    versions = x._version, buffer._version
    assert compiled(function)(x, buffer).item() == 12
    assert x.tolist() == [[7, 1], [7, 1]]
    assert buffer.tolist() == [[3, 3], [3, 3]]
    assert x._version > versions[0]
    assert buffer._version > versions[1]


def test_an_input_given_twice_and_written() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    run = compiled(function)
    x = torch.ones(4, device="mydev")
    assert run(x, x).tolist() == [4] * 4
    whole = torch.arange(6.0, device="mydev")
    assert run(whole[:4], whole[2:]).tolist() == [3, 8, 12, 20]


def test_shared_memory_that_is_written_becomes_its_owner() -> None:
    x = torch.ones(4, device="mydev")
    lazy = x._lazy_clone()
    compiled(lambda y: y.mul_(3))(lazy)
    assert (x.tolist(), lazy.tolist()) == ([1] * 4, [3] * 4)


def test_a_constant_of_the_graph_is_not_given_away() -> None:
    table = torch.arange(3.0, device="mydev")
    run = compiled(lambda x: (torch.tensor([1.0, 2.0], device=x.device), x + table))
    for _ in range(2):
        constant, total = run(torch.ones(3, device="mydev"))
        assert (constant.tolist(), total.tolist()) == ([1, 2], [1, 2, 3])
        constant.zero_()
    table.fill_(5)
    assert run(torch.ones(3, device="mydev"))[1].tolist() == [6] * 3


def test_numbers_on_the_cpu_are_read_at_each_call() -> None:
    run = compiled(lambda x, scale: (x * scale + 1, scale * 2))
    for value in (2.0, 3.0):
        result, doubled = run(torch.ones(3, device="mydev"), torch.tensor(value))
        assert result.tolist() == [value + 1] * 3
        assert (doubled.device.type, doubled.item()) == ("cpu", value * 2)
    assert calls() == ["aten.mul.Tensor"]  # that of the CPU


# --- random numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.3, 0.5])
def test_random_numbers_are_those_of_eager_mode(p: float) -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x, p) + torch.rand_like(x) + torch.randn(6, device=x.device)

    x, run = X.to("mydev"), compiled(function)
    mydev.manual_seed(3)
    expected = [function(x) for _ in range(3)]
    mydev.manual_seed(3)
    assert_close([run(x) for _ in range(3)], expected, rtol=0, atol=0)
    assert not torch.equal(run(x), run(x))
    assert calls() == []


def test_random_numbers_without_a_kernel_keep_their_place() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.rand_like(x) + torch.poisson(x.abs()) + torch.rand_like(x)

    x, run = X.to("mydev"), compiled(function)
    mydev.manual_seed(3)
    expected = function(x), function(x)
    mydev.manual_seed(3)
    assert_close((run(x), run(x)), expected, rtol=0, atol=0)


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_dynamic_sizes_are_programs_of_their_own() -> None:
    run = compiled(lambda x: (x * 2).sum(0) + x.shape[0], dynamic=True)
    for rows in (3, 5, 3, 7, 5):
        x = torch.ones(rows, 4, device="mydev")
        assert run(x).tolist() == [rows * 3] * 4
    assert len(graphs()) == 1


def test_many_sizes_do_not_pile_up() -> None:
    run = compiled(lambda x: x * 2 + 1, dynamic=True)
    for rows in [*range(2, 80), 2]:
        assert run(torch.ones(rows, device="mydev")).tolist() == [3] * rows


# --- what has no kernel ----------------------------------------------------------------------------------------------


def test_what_has_no_kernel_runs_outside_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    run = compiled(lambda x: torch.linalg.qr(x * 2)[1].abs() + 1)
    x = X.to("mydev")
    with caplog.at_level(logging.INFO, "torch_mydev.compile.program.graph_function"):
        for _ in range(2):
            assert_close(run(x), torch.linalg.qr(x * 2)[1].abs() + 1)
    assert calls() == ["aten.linalg_qr.default"]
    assert caplog.text.count("runs outside of programs: aten.linalg_qr.default") == 1
    (graph,) = graphs()
    assert (graph.route, graph.reason) == ("program", None)


def test_errors_are_eager_modes_own() -> None:
    run = compiled(lambda x, index: x[index].sum() * 2)
    x = torch.ones(4, device="mydev")
    for _ in range(2):
        with pytest.raises(IndexError, match="index 9 is out of bounds"):
            run(x, torch.tensor([9], device="mydev"))
            mydev.synchronize()
        assert run(x, torch.tensor([1], device="mydev")).item() == 2


def test_an_operator_of_somebody_elses_is_called_each_time() -> None:
    factors = iter((3, 5, 7))
    with torch.library._scoped_library("program_test", "FRAGMENT") as library:
        library.define("scaled(Tensor x) -> Tensor")
        library.impl("scaled", lambda x: x * next(factors), "PrivateUse1")
        library.impl("scaled", torch.empty_like, "Meta")
        run = compiled(lambda x: torch.ops.program_test.scaled(x + 1) * 2)
        results = [run(torch.ones(3, device="mydev")).tolist() for _ in range(3)]
    assert results == [[12] * 3, [20] * 3, [28] * 3]
    assert calls() == ["program_test.scaled.default"]


def test_a_custom_call_is_a_step() -> None:
    torch_mydev.load_custom_calls(OPERATOR_LIBRARY)
    run = compiled(lambda x: torch.ops.mydev_cc.test_axpy(x, x * 2, alpha=2.0) + 1)
    x = X.to("mydev")
    for _ in range(2):
        assert_close(run(x), torch.ops.mydev_cc.test_axpy(x, x * 2, alpha=2.0) + 1)
    assert calls() == []  # on copies, where the host does not reach the memory


def test_kernels_that_were_replaced_are_recorded_anew(run_python: Run) -> None:
    code = f"""
import torch, torch_mydev
torch_mydev.load_custom_calls({str(OPERATOR_LIBRARY)!r})
run = torch.compile(lambda x: torch.ops.mydev_cc.test_square(x) + 1, backend="mydev_program")
x = torch.full((2,), 3.0, device="mydev")
print(run(x).tolist())
torch_mydev.reload_custom_calls({str(OPERATOR_LIBRARY)!r})
print(run(x).tolist())
"""
    result = run_python(code)
    assert result.stdout == "[10.0, 10.0]\n[10.0, 10.0]\n", result.stderr


def test_higher_order_operators() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,)) + 1

    run = compiled(function)
    for sign in (1.0, -1.0):
        x = torch.full((3,), sign, device="mydev")
        assert run(x).tolist() == ([3] * 3 if sign > 0 else [-1] * 3)


# --- threads, captures, modes ----------------------------------------------------------------------------------------


def test_two_threads_call_one_function() -> None:
    run = compiled(lambda x: (x * 2).exp().sum(1))
    x = X.to("mydev")
    expected = (x * 2).exp().sum(1)
    run(x)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                assert_close(run(x), expected)
        except BaseException as error:  # shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_other_streams() -> None:
    run = compiled(lambda x: (x * 2).exp())
    x = X.to("mydev")
    expected = run(x)
    side = mydev.Stream()
    side.wait_stream(mydev.current_stream())
    with mydev.stream(side):
        actual = run(x)
    mydev.current_stream().wait_stream(side)
    assert_close(actual, expected)


@pytest.mark.parametrize("random", [False, True])
def test_a_compiled_function_is_captured(random: bool) -> None:
    function = (lambda x: F.dropout(x, 0.5) * 2) if random else (lambda x: (x * 2).exp().sum(1))
    run = compiled(function)
    x = X.to("mydev")
    graph, result = capture(lambda: run(x))
    x.mul_(0.5)
    mydev.manual_seed(2)
    graph.replay()
    mydev.manual_seed(2)
    assert_close(result, function(x))


def test_no_gradients_and_inference_mode() -> None:
    model = mlp().eval()
    x = torch.ones(3, 8, device="mydev")
    run = compiled(model)
    with torch.no_grad():
        assert_close(run(x), model(x))
    with torch.inference_mode():
        assert_close(run(x), model(x))


def test_little_overhead_is_by_programs() -> None:
    assert_like_eager(lambda x: F.softmax(x @ x.t(), -1) * 2, X.to("mydev"), mode="reduce-overhead")
    assert [graph.route for graph in graphs()] == ["program"]


def test_options_are_refused() -> None:
    run = torch.compile(lambda x: x + 1, backend=BACKEND, options={"fast": True})
    with pytest.raises(Exception, match='backend "mydev_program" has no options, but is given options'):
        run(torch.ones(2, device="mydev"))


def test_tensors_of_the_cpu_alone() -> None:
    assert compiled(lambda x: x * 2)(torch.ones(2)).tolist() == [2, 2]
    assert graphs() == []


def test_needs_no_compiler(run_python: Run) -> None:
    code = """
import torch, torch_mydev
run = torch.compile(lambda x: (x * 2).relu(), backend="mydev_program")
print(run(torch.ones(2, device="mydev")).tolist())
"""
    result = run_python(code, CXX="/nonexistent/c++")
    assert result.stdout == "[2.0, 2.0]\n", result.stderr


# [docs: function]
def function(x: Tensor, w: Tensor) -> Tensor:
    return (x * 2).relu() @ w


# [docs: end]

# [docs: recorded]
PROGRAM = """programs version 1

program function_fused0(p0: f32[2048]) -> (t3: f32[2048]) {
  temporary t2: f32[2048]
  t2 = launch mydev.mul(p0, f32[2048] 2.0)
  t3 = launch mydev.relu(t2)
}

program function(p0: f32[2048], p1: f32[32,64]) -> (t4: f32[64,64]) {
  temporary t3: f32[2048]
  t3 = fused function_fused0(p0)
  t4 = launch mydev.matmul(t3 f32[64,32], p1; alpha=1.0, beta=0.0)
}
"""
# [docs: end]


def test_programs_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_mydev.compile.program import graph_function

    made: list[graph_function.GraphFunction] = []
    original = graph_function.GraphFunction.__init__

    def note(self: graph_function.GraphFunction, *arguments: Any) -> None:
        original(self, *arguments)
        made.append(self)

    monkeypatch.setattr(graph_function.GraphFunction, "__init__", note)
    run, x, w = compiled(function), torch.ones(64, 32, device="mydev"), torch.ones(32, 64, device="mydev")
    run(x, w)
    assert made[0].programs() == [PROGRAM]
    with mydev.launch_statistics() as statistics:
        run(x, w)
        mydev.synchronize()
    assert sorted(row.name for row in statistics.rows) == ["mydev.fused", "mydev.matmul"]
