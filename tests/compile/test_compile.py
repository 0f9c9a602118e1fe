"""torch.compile with every backend: graphs, guards, gradients, streams, devices; Dynamo's interface to the device."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._dynamo.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    get_interface_for_device,
    get_registered_device_interfaces,
)
from torch._dynamo.testing import CompileCounterWithBackend

import torch_mydev

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


@pytest.fixture(params=["eager", "aot_eager", "inductor"])
def backend(request: pytest.FixtureRequest) -> str:
    """Inductor's is the one that ``backend="mydev"`` names too."""
    name: str = request.param
    return name


@pytest.mark.slow
@pytest.mark.host_access
def test_backend_of_the_devices_name_is_the_default_one(device: torch.device) -> None:
    x = torch.linspace(-2, 2, 24, device=device)
    torch.testing.assert_close(torch.compile(lambda x: x.sin() + 1, backend="mydev")(x), x.sin() + 1)
    assert [(graph.kind, graph.reason) for graph in torch_mydev.compile_report().graphs] == [("inference", None)]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))


def test_function_gives_what_eager_gives(backend: str, device: torch.device) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y).relu() + x.sin() * 2

    x, y = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    result = torch.compile(function, backend=backend, fullgraph=True)(x, y)
    assert result.device.type == device.type
    torch.testing.assert_close(result, function(x, y))


def test_module_trains_as_on_the_cpu(backend: str, device: torch.device) -> None:
    reference, compiled = model(), model().to(device)
    run = torch.compile(compiled, backend=backend, fullgraph=True)
    torch.manual_seed(1)
    inputs, targets = torch.randn(32, 8), torch.randint(4, (32,))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (reference, compiled)]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        nn.functional.cross_entropy(reference(inputs), targets).backward()
        nn.functional.cross_entropy(run(inputs.to(device)), targets.to(device)).backward()
        for optimizer in optimizers:
            optimizer.step()
    for ours, theirs in zip(compiled.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def test_gradients_of_inputs(backend: str, device: torch.device) -> None:
    x = torch.randn(5, device=device, requires_grad=True)
    torch.compile(lambda x: (x.exp() * x).sum(), backend=backend)(x).backward()
    eager = x.detach().clone().requires_grad_()
    (eager.exp() * eager).sum().backward()
    torch.testing.assert_close(x.grad, eager.grad)


def test_another_shape_recompiles_and_the_same_does_not(backend: str, device: torch.device) -> None:
    counter = CompileCounterWithBackend(backend)
    run = torch.compile(lambda x: x * 2, backend=counter, dynamic=False)
    for size in (3, 3, 4, 4, 3):
        assert run(torch.ones(size, device=device)).sum().item() == 2 * size
    assert counter.frame_count == 2


def test_dynamic_shapes_compile_once(backend: str, device: torch.device) -> None:
    counter = CompileCounterWithBackend(backend)
    run = torch.compile(lambda x: (x + 1).sum(), backend=counter, dynamic=True)
    for size in (3, 4, 5):
        assert run(torch.ones(size, device=device)).item() == 2 * size
    assert counter.frame_count == 1


@pytest.mark.devices(2)
def test_another_device_recompiles(backend: str) -> None:
    counter = CompileCounterWithBackend(backend)
    run = torch.compile(lambda x: x + 1, backend=counter)
    for index in (0, 1, 0):
        result = run(torch.ones(3, device=f"mydev:{index}"))
        assert result.device.index == index
    assert counter.frame_count == 2


def test_graph_break_in_the_middle(backend: str, device: torch.device) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    counter = CompileCounterWithBackend(backend)
    result = torch.compile(function, backend=counter)(torch.ones(3, device=device))
    assert result.tolist() == [4, 4, 4]
    assert counter.frame_count == 2


def test_branch_on_a_value_breaks_the_graph_but_works(backend: str, device: torch.device) -> None:
    run = torch.compile(lambda x: x + 1 if x.sum().item() > 0 else x - 1, backend=backend)
    assert run(torch.ones(2, device=device)).tolist() == [2, 2]
    assert run(-torch.ones(2, device=device)).tolist() == [-2, -2]


@pytest.mark.slow
@pytest.mark.parametrize("there", ["cpu", "mydev"])
def test_moves_between_devices_inside_a_graph(backend: str, there: str) -> None:
    here = "mydev" if there == "cpu" else "cpu"
    run = torch.compile(lambda x: (x + 1).to(there) * 2, backend=backend, fullgraph=True)
    result = run(torch.ones(3, device=here))
    assert result.device.type == there
    assert result.tolist() == [4, 4, 4]


def test_factories_inside_a_graph(backend: str, device: torch.device) -> None:
    run = torch.compile(
        lambda x: x + torch.arange(3, device=x.device) + torch.ones_like(x), backend=backend, fullgraph=True
    )
    assert run(torch.zeros(3, device=device)).tolist() == [1, 2, 3]


def test_default_device_inside_a_graph(backend: str, device: torch.device) -> None:
    run = torch.compile(lambda: torch.ones(3) * 2, backend=backend)
    with device:
        result = run()
    assert result.device.type == device.type
    assert result.tolist() == [2, 2, 2]


def test_mutation_of_an_input(backend: str, device: torch.device) -> None:
    x = torch.ones(3, device=device)
    torch.compile(lambda x: x.add_(1).mul_(2), backend=backend)(x)
    assert x.tolist() == [4, 4, 4]


def test_views_of_an_input(backend: str, device: torch.device) -> None:
    x = torch.arange(6.0, device=device)
    view = torch.compile(lambda x: x.view(2, 3).t(), backend=backend, fullgraph=True)(x)
    x.add_(1)
    assert view.tolist() == [[1, 4], [2, 5], [3, 6]]


def test_autocast_inside_a_graph(backend: str, device: torch.device) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return x @ x

    x = torch.randn(8, 8, device=device)
    result = torch.compile(function, backend=backend, fullgraph=True)(x)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result, function(x))


def test_random_numbers_follow_the_seed(backend: str, device: torch.device) -> None:
    run = torch.compile(lambda x: nn.functional.dropout(x, 0.5), backend=backend, fullgraph=True)
    x = torch.ones(100, device=device)
    torch.manual_seed(4)
    first = run(x)
    torch.manual_seed(4)
    torch.testing.assert_close(run(x), first, rtol=0, atol=0)
    assert set(first.unique().tolist()) == {0.0, 2.0}


def test_fake_tensors_keep_the_device(backend: str, device: torch.device) -> None:
    seen = []

    def record(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        values = [node.meta.get("example_value", node.meta.get("val")) for node in graph.graph.nodes]
        seen.extend(value.device for value in values if isinstance(value, torch.Tensor))
        return graph

    chosen = record if backend == "eager" else torch._dynamo.backends.common.aot_autograd(fw_compiler=record)
    torch.compile(lambda x: x.sin() + 1, backend=chosen)(torch.ones(3, device=device))
    assert len(seen) == 3  # the input and two results
    assert {found.type for found in seen} == {device.type}


def test_streams_inside_a_compiled_function(backend: str, device: torch.device) -> None:
    stream = mydev.Stream()

    def function(x: torch.Tensor) -> torch.Tensor:
        with mydev.stream(stream):
            return x * 2 + 0.75  # a graph of no other test: Inductor would take that one's code

    x = torch.ones(3, device=device)
    stream.wait_stream(mydev.current_stream())
    result = torch.compile(function, backend=backend)(x)
    mydev.synchronize()
    assert result.tolist() == [2.75, 2.75, 2.75]
    assert mydev.current_stream() == mydev.default_stream()


@pytest.mark.devices(2)
def test_device_context_inside_a_compiled_function(backend: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with mydev.device(1):
            return x + torch.ones(3, device="mydev")

    result = torch.compile(function, backend=backend)(torch.ones(3, device="mydev:1"))
    assert result.tolist() == [2, 2, 2]
    assert result.device.index == 1


def test_channels_last_convolution_keeps_its_layout(backend: str, device: torch.device) -> None:
    x = torch.randn(2, 3, 8, 8, device=device).to(memory_format=torch.channels_last)
    weight = torch.randn(4, 3, 3, 3, device=device, requires_grad=True)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = nn.functional.conv2d(x, weight)
        return y, y.flatten(1)

    actual, expected = torch.compile(function, backend=backend, fullgraph=True)(x), function(x)
    torch.testing.assert_close(actual, expected, check_stride=True)
    actual[1].sum().backward()


def test_interface_answers_what_the_module_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    interface = get_interface_for_device("mydev")
    monkeypatch.setitem(caching_worker_current_devices, "mydev", 99)
    interface.Worker.set_device(0)
    assert interface.Worker.current_device() == 0
    interface.set_device(0)
    assert interface.exchange_device(0) == interface.maybe_exchange_device(-1) == 0
    stream = interface.Stream(0)
    interface.set_stream(stream)
    assert mydev.current_stream() == stream
    default = mydev.default_stream()
    interface._set_stream_by_id(default.stream_id, default.device_index, default.device_type)
    assert mydev.current_stream() == default
    assert interface.get_compute_capability(0) == mydev.get_device_capability(0)
    assert interface.is_dtype_supported(torch.float64)
    assert interface is dict(get_registered_device_interfaces())["mydev"]
    assert interface.is_available() == mydev.is_available()
    assert interface.device_count() == mydev.device_count()
    assert interface.current_device() == mydev.current_device()
    assert interface.current_stream() == mydev.current_stream()
    assert interface.get_raw_stream(0) == mydev.current_stream().native_handle
    assert interface.Worker.get_device_properties("mydev:0") == mydev.get_device_properties(0)
    assert interface.memory_allocated() == mydev.memory_allocated()
    assert interface.is_bf16_supported()
    assert not interface.is_triton_capable()
    interface.synchronize()


def test_interface_leaves_nothing_unanswered() -> None:
    interface = get_interface_for_device("mydev")
    asked = [name for name in vars(DeviceInterface) if not name.startswith("__")]
    inherited = [name for name in asked if getattr(interface, name) is getattr(DeviceInterface, name)]
    assert inherited == []


@pytest.mark.slow
@pytest.mark.parametrize("order", ["torch_mydev, torch._dynamo", "torch._dynamo, torch_mydev"])
def test_interface_is_there_whoever_imports_dynamo_first(order: str, run_python: Run) -> None:
    code = f"""
import torch
import {order}
print(torch.compile(lambda x: x + 1, fullgraph=True, backend="eager")(torch.ones(2, device="mydev")).sum().item())
from torch._dynamo.device_interface import DeviceInterface, get_interface_for_device
print(get_interface_for_device("mydev").__name__)
"""
    result = run_python(code, fresh=True, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["4.0", "DynamoInterface"]
