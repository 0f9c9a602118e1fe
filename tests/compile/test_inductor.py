"""torch.compile's default backend: graphs compiled for the host on the device's memory.

test_compile.py tests what every backend must do, test_compile_models.py whole models.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import torch_mydev
from support.like_eager import X, assert_like_eager, graphs, mlp

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


# --- values and places -----------------------------------------------------------------------------------------------

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


@pytest.mark.host_access
def test_dynamic_shapes_compile_once() -> None:
    run = torch.compile(lambda x: (x @ x.t()).relu().sum(0), dynamic=True, fullgraph=True)
    for size in (3, 5, 8):
        x = torch.randn(size, 4, device="mydev")
        torch.testing.assert_close(run(x), (x @ x.t()).relu().sum(0))
    assert len(graphs()) == 1


@pytest.mark.host_access
def test_marked_dimension_is_dynamic() -> None:
    run = torch.compile(lambda x: x.sin().sum(1), fullgraph=True)
    for size in (4, 6, 9):
        x = torch.randn(size, 2, device="mydev")
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(run(x), x.sin().sum(1))
    assert len(graphs()) == 1


@pytest.mark.host_access
def test_beyond_the_recompile_limit_functions_run_eagerly() -> None:
    run = torch.compile(lambda x, n: x * n, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        results = [run(torch.ones(1, device="mydev"), n).item() for n in range(5)]
    assert results == [0, 1, 2, 3, 4]
    assert len(graphs()) == 2


@pytest.mark.host_access
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
    eager = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)).to("mydev")
    eager.load_state_dict(model.state_dict())
    seen: list[int] = []
    for module in (model, eager):
        module[0].register_forward_hook(lambda module, args, result: seen.append(result.dim()))
        run = torch.compile(module) if module is model else module
        run(X.to("mydev")).sum().backward()
    assert seen == [2, 2]
    torch.testing.assert_close(model.state_dict(), eager.state_dict())
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])


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


@pytest.mark.host_access
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


# --- seeing ----------------------------------------------------------------------------------------------------------


@pytest.mark.host_access
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
    result = run_python(code, fresh=True, TORCH_LOGS="aot_graphs")
    assert result.returncode == 0, result.stderr
    assert "mydev:0" in result.stderr


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
