"""torch.compile's default backend: graphs compiled for the host on the device's memory.

What every backend must do is in test_compile.py, whole models are in test_compile_models.py.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import torch_mydev
from support.checkout import DRIVERS, KERNELS
from support.like_eager import assert_like_eager

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def graphs() -> list[Any]:
    return torch_mydev.compile_report().graphs


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)).to("mydev")


# --- values and places -----------------------------------------------------------------------------------------------

X = torch.linspace(-2, 2, 24).reshape(4, 6)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x: (x * 2 + 1).relu().sin(),
    "reduction": lambda x: (x.sum(1), x.amax(0), x.var()),
    "softmax": lambda x: F.softmax(x, -1).log(),
    "matmul": lambda x: x @ x.t() + 1,
    "linear": lambda x: F.linear(x, x, x.new_ones(4)),
    "bmm": lambda x: torch.baddbmm(x.new_ones(2, 2, 2), x.view(2, 2, 6), x.view(2, 6, 2), beta=0.5, alpha=2),
    "convolution": lambda x: F.conv2d(x.view(1, 2, 3, 4), x.view(2, 2, 3, 2)[:, :, :2], padding=1),
    "pooling": lambda x: F.max_pool2d(x.view(1, 2, 3, 4), 2, 1),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 2, 3, 4)] * 3, is_causal=True),
    "embedding": lambda x: F.embedding(torch.tensor([1, 3, 1], device=x.device), x),
    "indexing": lambda x: x[x.argmax(0)],
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "lstm cell": lambda x: torch.lstm_cell(
        x[:, :2], (x[:, :1], x[:, 1:2]), x.view(12, 2)[:4], x.view(24, 1)[:4], x[0, :4], x[1, :4]
    ),
    "gru cell": lambda x: torch.gru_cell(x[:, :2], x[:, 1:2], x.view(12, 2)[:3], x.view(24, 1)[:3], x[0, :3], x[1, :3]),
    "views": lambda x: (x.t(), x[1:], x.view(-1)),
    "transposed result": lambda x: (x * 2).t(),
    "no tensor": lambda x: (x + 1, 3, None),
    "the input itself": lambda x: x,
    "one result twice": lambda x: [x + 1] * 2,
    "empty": lambda x: x[:0] * 2,
    "scalar of the CPU": lambda x: x * torch.tensor(2.0),
    "factory": lambda x: x + torch.arange(6, device=x.device),
    "float64": lambda x: x.double().exp(),
    "complex": lambda x: torch.view_as_real(torch.fft.fft(x)).sum(-1),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_gives_what_eager_gives(name: str, grad: bool) -> None:
    assert_like_eager(FUNCTIONS[name], X.to("mydev").requires_grad_(grad))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode: str) -> None:
    assert_like_eager(lambda x: F.softmax(x @ x.t(), -1), X.to("mydev"), mode=mode)


@pytest.mark.parametrize("backend", ["inductor", "mydev"])
def test_options(backend: str) -> None:
    assert_like_eager(lambda x: x.exp().sum(0), X.to("mydev"), backend=backend, options={"cpp.threads": 1})


@pytest.mark.parametrize("setting", ["freezing", "cpp_wrapper", "max_autotune", "wrap_inductor_compiled_regions"])
def test_settings_of_inductor(setting: str) -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), mlp()).to("mydev").eval()
    x = X.to("mydev")[:, None]
    with torch._inductor.config.patch({setting: True}), torch.no_grad():
        torch.testing.assert_close(torch.compile(model)(x), model(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.bool])
def test_dtypes(dtype: torch.dtype) -> None:
    assert_like_eager(lambda x: (x * x, x.t().contiguous()), X.to("mydev", dtype))


def test_channels_last_is_kept() -> None:
    x = torch.randn(2, 3, 8, 8, device="mydev").to(memory_format=torch.channels_last)
    weight = torch.randn(4, 3, 3, 3, device="mydev")
    assert_like_eager(lambda x, w: F.conv2d(x, w).relu(), x, weight)


def test_a_result_on_the_cpu_is_a_copy() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        before = x.cpu()
        x.add_(1)
        return before, x.cpu() * 2

    x = torch.zeros(3, device="mydev")
    before, after = torch.compile(function, fullgraph=True)(x)
    x.fill_(9)
    assert (before.device.type, after.device.type) == ("cpu", "cpu")
    assert (before.tolist(), after.tolist()) == ([0, 0, 0], [2, 2, 2])


def test_inputs_and_results_of_the_cpu_pass_through() -> None:
    host, x = torch.arange(3.0), torch.ones(3, device="mydev")
    doubled, moved = torch.compile(lambda h, x: (h * 2, h.to(x.device) + x), fullgraph=True)(host, x)
    assert (doubled.device.type, doubled.tolist()) == ("cpu", [0, 2, 4])
    assert (moved.device.type, moved.tolist()) == ("mydev", [1, 2, 3])


def test_a_result_that_is_an_input_shares_its_memory() -> None:
    x = torch.zeros(2, 3, device="mydev")
    same, view = torch.compile(lambda x: (x, x.t()), fullgraph=True)(x)
    x.fill_(5)
    assert same.tolist() == [[5] * 3] * 2
    assert view.tolist() == [[5] * 2] * 3


def test_mutated_inputs() -> None:
    def function(x: Tensor, buffer: Tensor) -> Tensor:
        buffer.mul_(2).add_(x)
        x.t()[0] = 7
        return buffer.sum()

    x, buffer = torch.ones(2, 2, device="mydev"), torch.ones(2, 2, device="mydev")
    assert torch.compile(function, fullgraph=True)(x, buffer).item() == 12
    assert x.tolist() == [[7, 1], [7, 1]]
    assert buffer.tolist() == [[3, 3], [3, 3]]


def test_a_constant_of_the_graph_is_not_given_away() -> None:
    table = torch.arange(3.0, device="mydev")
    run = torch.compile(lambda x: (torch.tensor([1.0, 2.0], device=x.device), x + table), fullgraph=True)
    for _ in range(2):
        constant, total = run(torch.ones(3, device="mydev"))
        assert (constant.device.type, constant.tolist(), total.tolist()) == ("mydev", [1, 2], [1, 2, 3])
        constant.zero_()


def test_inference_mode_gives_inference_tensors() -> None:
    with torch.inference_mode():
        result = torch.compile(lambda x: x + 1)(torch.ones(2, device="mydev"))
    assert result.is_inference()


# --- shapes, control flow, transforms --------------------------------------------------------------------------------


def test_dynamic_shapes_compile_once() -> None:
    run = torch.compile(lambda x: (x @ x.t()).relu().sum(0), dynamic=True, fullgraph=True)
    for size in (3, 5, 8):
        x = torch.randn(size, 4, device="mydev")
        torch.testing.assert_close(run(x), (x @ x.t()).relu().sum(0))
    assert len(graphs()) == 1


def test_marked_dimension_is_dynamic() -> None:
    run = torch.compile(lambda x: x.sin().sum(1), fullgraph=True)
    for size in (4, 6, 9):
        x = torch.randn(size, 2, device="mydev")
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(run(x), x.sin().sum(1))
    assert len(graphs()) == 1


def test_beyond_the_recompile_limit_functions_run_eagerly() -> None:
    run = torch.compile(lambda x, n: x * n, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        results = [run(torch.ones(1, device="mydev"), n).item() for n in range(5)]
    assert results == [0, 1, 2, 3, 4]
    assert len(graphs()) == 2


def test_graph_break_gives_two_graphs() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    assert torch.compile(function)(torch.ones(2, device="mydev")).tolist() == [3, 3]
    assert len(graphs()) == 2


def test_conditional() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x - 1, (x,))

    run = torch.compile(function, fullgraph=True)
    assert run(torch.ones(2, 2, device="mydev")).tolist() == [[2, 2], [2, 2]]
    assert run(-torch.ones(2, 2, device="mydev")).tolist() == [[-2, -2], [-2, -2]]


def test_function_transforms_inside() -> None:
    weight = torch.randn(6, device="mydev")

    def function(x: Tensor) -> Tensor:
        return torch.func.vmap(torch.func.grad(lambda row: (row * weight).sin().sum()))(x)

    assert_like_eager(function, X.to("mydev"))


def test_nested_compile() -> None:
    inner = torch.compile(lambda x: x * 2)
    assert torch.compile(lambda x: inner(x) + 1)(torch.ones(2, device="mydev")).tolist() == [3, 3]


def test_autocast_inside() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.autocast("mydev", dtype=torch.bfloat16):
            return F.linear(x, x).relu()

    assert assert_like_eager(function, X.to("mydev")).dtype == torch.bfloat16


def test_hooks_and_buffers() -> None:
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)).to("mydev")
    plain = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)).to("mydev")
    plain.load_state_dict(model.state_dict())
    seen: list[int] = []
    for module in (model, plain):
        module[0].register_forward_hook(lambda module, args, result: seen.append(result.dim()))
        run = torch.compile(module) if module is model else module
        run(X.to("mydev")).sum().backward()
    assert seen == [2, 2]
    torch.testing.assert_close(model.state_dict(), plain.state_dict())
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])


# --- training --------------------------------------------------------------------------------------------------------


def train(compiled: bool, device: str = "mydev", steps: int = 3) -> Tensor:
    model = mlp().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def update() -> None:
        optimizer.step()

    run, step = (torch.compile(model), torch.compile(update)) if compiled else (model, update)
    x, labels = torch.linspace(-1, 1, 40).view(5, 8).to(device), torch.arange(5, device=device) % 4
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(run(x), labels)
        optimizer.zero_grad()
        loss.backward()
        step()
        losses.append(loss.detach())
    return torch.stack(losses)


def test_training_with_a_compiled_optimizer() -> None:
    torch.testing.assert_close(train(compiled=True), train(compiled=False))


def test_the_cpu_compiles_as_ever_beside_the_device() -> None:
    torch.testing.assert_close(train(compiled=True, device="cpu"), train(compiled=False, device="cpu"))
    assert graphs() == []
    train(compiled=True)
    assert graphs() != []
    torch._dynamo.reset()
    torch.testing.assert_close(train(compiled=True, device="cpu"), train(compiled=False, device="cpu"))


def test_compiled_autograd() -> None:
    model, x = mlp(), torch.ones(3, 8, device="mydev")
    model(x).sum().backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    with torch._dynamo.compiled_autograd._enable(torch.compile):
        torch.compile(model)(x).sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], expected)


def test_checkpointing_recomputes_the_same_dropout() -> None:
    weight = torch.randn(6, 6, device="mydev", requires_grad=True)

    def block(x: Tensor) -> Tensor:
        return F.dropout(x @ weight, 0.5).relu()

    x = X.to("mydev").requires_grad_()
    result = torch.compile(lambda x: checkpoint(block, x, use_reentrant=False), fullgraph=True)(x)
    result.sum().backward()
    kept = (result > 0).float()
    torch.testing.assert_close(x.grad, (kept * 2) @ weight.t())


def test_parameters_that_get_other_memory() -> None:
    model = mlp()
    run, x = torch.compile(model), torch.ones(3, 8, device="mydev")
    run(x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = torch.randn_like(parameter)
    torch.testing.assert_close(run(x), model(x))


# --- memory ----------------------------------------------------------------------------------------------------------


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


# --- what stays a call of the device ---------------------------------------------------------------------------------


def test_random_numbers_follow_the_device_and_not_the_cpu() -> None:
    run = torch.compile(lambda x: torch.rand_like(x) + F.dropout(x, 0.5), fullgraph=True)
    x = torch.ones(100, device="mydev")
    mydev.manual_seed(3)
    torch.default_generator.manual_seed(1)
    first, second = run(x), run(x)
    mydev.manual_seed(3)
    torch.default_generator.manual_seed(2)
    torch.testing.assert_close(run(x), first, rtol=0, atol=0)
    assert not torch.equal(first, second)


RANDOM: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": torch.rand_like,
    "randn": lambda x: torch.randn(3, 5, device=x.device),
    "randint": lambda x: torch.randint(10, (8,), device=x.device),
    "bernoulli": lambda x: torch.bernoulli(x * 0.5),
    "dropout": lambda x: F.dropout(x, 0.3) * 2,
    "multinomial": lambda x: torch.multinomial(x, 4, replacement=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_fallback_random_gives_eager_numbers(name: str) -> None:
    x = torch.ones(50, device="mydev")
    mydev.manual_seed(5)
    expected = RANDOM[name](x)
    mydev.manual_seed(5)
    run = torch.compile(RANDOM[name], fullgraph=True, options={"fallback_random": True})
    torch.testing.assert_close(run(x), expected, rtol=0, atol=0)


def test_products_are_the_device_s() -> None:
    torch.compile(lambda x: (x @ x.t()).relu(), fullgraph=True)(X.to("mydev"))
    assert graphs()[0].calls == ["mydev_call.aten_mm_default.default"]


@pytest.mark.parametrize("grad", [False, True])
def test_custom_call_inside_a_graph(grad: bool) -> None:
    torch_mydev.load_custom_calls(KERNELS / "operator_kernels.so")
    x = X.to("mydev").requires_grad_(grad)
    assert_like_eager(lambda x: torch.ops.mydev_cc.test_square(x * 2).relu(), x)
    assert any("mydev_cc" in call for call in graphs()[0].calls)


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("mydev_test", "FRAGMENT") as library:
        yield library


@pytest.mark.parametrize("key", ["PrivateUse1", "CompositeExplicitAutograd"])
def test_an_operator_of_an_extension_runs_on_the_device(library: torch.library.Library, key: str) -> None:
    def twice(x: Tensor) -> Tensor:
        assert x.device.type == "mydev"
        return x * 2

    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", twice, key)
    library._register_fake("twice", torch.empty_like)
    result = torch.compile(lambda x: torch.ops.mydev_test.twice(x + 1).relu(), fullgraph=True)(X.to("mydev"))
    torch.testing.assert_close(result.cpu(), ((X + 1) * 2).relu())


def test_an_operator_of_an_extension_that_writes_its_operand(library: torch.library.Library) -> None:
    def bump(x: Tensor) -> None:
        assert x.device.type == "mydev"
        x.add_(1)

    library.define("bump(Tensor(a!) x) -> ()")
    library.impl("bump", bump, "PrivateUse1")
    library._register_fake("bump", lambda x: None)

    def function(x: Tensor) -> Tensor:
        torch.ops.mydev_test.bump(x)
        return x * 3

    x = torch.ones(3, device="mydev")
    assert torch.compile(function, fullgraph=True)(x).tolist() == [6, 6, 6]
    assert x.tolist() == [2, 2, 2]


def test_an_operator_that_its_extension_defines_anew() -> None:
    def define(library: torch.library.Library, schema: str, kernel: Callable[..., Tensor]) -> None:
        library.define(f"anew{schema}")
        library.impl("anew", kernel, "PrivateUse1")
        library._register_fake("anew", lambda x, *rest: torch.empty_like(x))

    x = torch.ones(3, device="mydev")
    first = torch.compile(lambda x: torch.ops.mydev_test.anew(x).relu(), fullgraph=True)
    second = torch.compile(lambda x: torch.ops.mydev_test.anew(x, 4.0).relu(), fullgraph=True)
    with torch.library._scoped_library("mydev_test", "FRAGMENT") as library:
        define(library, "(Tensor x) -> Tensor", lambda x: x * 2)
        assert first(x).tolist() == [2, 2, 2]
    with (
        torch.compiler.set_stance(skip_guard_eval_unsafe=True),
        pytest.raises(RuntimeError, match="mydev_test::anew, which is no longer defined"),
    ):
        first(x)
    with torch.library._scoped_library("mydev_test", "FRAGMENT") as library:
        define(library, "(Tensor x, float y) -> Tensor", lambda x, y: x * y)
        assert second(x).tolist() == [4, 4, 4]
        with (
            torch.compiler.set_stance(skip_guard_eval_unsafe=True),
            pytest.raises(RuntimeError, match="mydev_test::anew, which has been defined anew"),
        ):
            first(x)


def test_a_call_of_the_device_outside_a_graph_is_refused() -> None:
    x = X.to("mydev")
    torch.compile(lambda x: x @ x.t())(x)
    with pytest.raises(RuntimeError, match="runs inside compiled graphs only; call aten::mm"):
        torch.ops.mydev_call.aten_mm_default(X, X.t())


# --- seeing ----------------------------------------------------------------------------------------------------------


def test_report() -> None:
    x = X.to("mydev").requires_grad_()
    (torch.compile(lambda x: (x @ x.t()).sin())(x)).sum().backward()
    forward, backward = graphs()
    assert (forward.kind, backward.kind) == ("forward", "backward")
    assert forward.device == "mydev:0"
    assert forward.ops >= 2
    assert len(backward.calls) == 2
    assert forward.seconds > 0
    table = str(torch_mydev.compile_report())
    assert "forward" in table.splitlines()[1]
    torch_mydev.reset_compile_report()
    assert graphs() == []


def test_explain() -> None:
    explanation = torch._dynamo.explain(lambda x: x.sin() + 1)(torch.ones(2, device="mydev"))
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


def test_logs_name_the_device(run_python: Run) -> None:
    code = """
import torch
import torch_mydev
torch.compile(lambda x: x.sin() + 1)(torch.ones(2, device="mydev"))
"""
    result = run_python(code, TORCH_LOGS="aot_graphs")
    assert result.returncode == 0, result.stderr
    assert 'device="mydev:0"' in result.stderr.replace("'", '"') or "mydev:0" in result.stderr


# --- export ----------------------------------------------------------------------------------------------------------


def test_exported_program_runs_and_compiles() -> None:
    model, x = mlp(), torch.ones(3, 8, device="mydev")
    exported = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(exported(x), model(x))
    torch.testing.assert_close(torch.compile(exported)(x), model(x))


def test_export_to_native_code_is_refused(tmp_path: Path) -> None:
    program = torch.export.export(mlp(), (torch.ones(3, 8, device="mydev"),))
    with pytest.raises(NotImplementedError, match="AOTInductor cannot compile for mydev"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))


# --- where graphs cannot be compiled ---------------------------------------------------------------------------------

TRAIN = """
import torch
import torch_mydev
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("mydev")
x = torch.ones(3, 8, device="mydev")
model(x).sum().backward()
expected = [p.grad.clone() for p in model.parameters()]
for turn in range(2):
    model.zero_grad()
    torch.compile(model)(x).sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], expected)
    torch._dynamo.reset()
print("trained")
"""


def test_driver_without_host_access_runs_its_own_operators(run_python: Run) -> None:
    result = run_python(TRAIN, MYDEV_DRIVER=str(DRIVERS / "discrete_driver.so"))
    assert result.stdout == "trained\n", result.stderr
    assert result.stderr.count("is not accessible from the host") == 1


def test_without_a_compiler_graphs_run_at_eager_speed(run_python: Run) -> None:
    code = "import torch._inductor.config as config\nconfig.cpp.cxx = ('no-such-compiler',)\n" + TRAIN
    result = run_python(code)
    assert result.stdout == "trained\n", result.stderr
    assert result.stderr.count("found no C++ compiler; install one") == 1
    assert "Traceback" not in result.stderr


def test_a_graph_that_resizes_an_input_is_interpreted(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            x.untyped_storage().resize_(24)
            x.copy_(y)
        return x * 2

    x, y = torch.ones(6, device="mydev"), torch.arange(6.0, device="mydev")
    x.untyped_storage().resize_(0)
    assert torch.compile(function, fullgraph=True)(x, y).tolist() == [0, 2, 4, 6, 8, 10]
    assert x.tolist() == y.tolist()
    assert "resize_storage_bytes_" in str(graphs()[0].reason)
    assert "runs through mydev's own operators" in caplog.text


def test_cache_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    x = torch.ones(3, device="mydev")
    run = torch.compile(lambda x: x.sin() + 1.5)
    with monkeypatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
        with pytest.raises(RuntimeError, match="cannot write its generated code to .*/file/cache: name a directory"):
            run(x)
    torch.testing.assert_close(run(x), x.sin() + 1.5)


def test_a_second_process_finds_the_code_compiled(run_python: Run, tmp_path: Path) -> None:
    code = """
import torch
import torch_mydev
from torch._dynamo.utils import counters
print(torch.compile(lambda x: (x @ x).sin().sum(0))(torch.ones(3, 3, device="mydev")).shape)
print(counters["inductor"]["fxgraph_cache_hit"])
"""
    found = [run_python(code, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).stdout.split()[-1] for _ in range(2)]
    assert found == ["0", "1"]


def test_out_of_memory_inside_a_graph(run_python: Run) -> None:
    code = """
import torch
import torch_mydev
run = torch.compile(lambda x, n: torch.cat([x.sin().sort()[0]] * n), dynamic=False)
x = torch.rand(1 << 20, device="mydev")
run(x, 2)
before = torch.mydev.memory_allocated()
try:
    run(x, 64)
except torch.OutOfMemoryError as error:
    print("out of memory")
print(torch.mydev.memory_allocated() - before, run(x, 2).shape[0])
"""
    result = run_python(code, MYDEV_DRIVER="host:memory=128M")
    assert result.stdout.split("\n")[:2] == ["out of memory", f"0 {2 << 20}"], result.stdout + result.stderr


def test_an_error_in_the_middle_of_a_graph() -> None:
    run = torch.compile(lambda x, i: (x * 2)[i].sort()[0] @ x.t(), fullgraph=True)
    x, index = X.to("mydev"), torch.tensor([0, 3], device="mydev")
    expected = run(x, index)
    before = mydev.memory_allocated()
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        run(x, torch.tensor([0, 9], device="mydev"))
    assert mydev.memory_allocated() == before
    torch.testing.assert_close(run(x, index), expected)


@pytest.mark.devices(2)
def test_second_device() -> None:
    x = torch.ones(3, device="mydev:1")
    result = torch.compile(lambda x: x.sin() + torch.ones(3, device=x.device), fullgraph=True)(x)
    assert result.device == torch.device("mydev:1")
    torch.testing.assert_close(result, x.sin() + 1)
    assert graphs()[0].device == "mydev:1"


@pytest.mark.devices(2)
def test_a_graph_of_two_devices_runs_their_own_operators() -> None:
    x, y = torch.ones(3, device="mydev:0"), torch.ones(3, device="mydev:1")
    total = torch.compile(lambda x, y: x + y.to(x.device), fullgraph=True)(x, y)
    assert (total.device.index, total.tolist()) == (0, [2, 2, 2])
