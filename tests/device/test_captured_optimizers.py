"""Steps of torch.optim's optimizers as graphs: a replay does what the step does on the CPU, with each option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_mydev
from support.graphs import capture

optim = torch.optim

#: These optimizers run with an option for the loops over tensors, and with capturable=True.
CAPTURABLE: dict[str, tuple[type[optim.Optimizer], dict[str, Any]]] = {
    "Adam": (optim.Adam, {}),
    "Adam amsgrad": (optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    "Adam maximize": (optim.Adam, {"maximize": True, "betas": (0.7, 0.8)}),
    "Adam decoupled": (optim.Adam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    "AdamW": (optim.AdamW, {}),
    "AdamW amsgrad maximize": (optim.AdamW, {"amsgrad": True, "maximize": True}),
    "NAdam": (optim.NAdam, {}),
    "NAdam decoupled": (optim.NAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1, "maximize": True}),
    "RAdam": (optim.RAdam, {}),
    "RAdam decoupled": (optim.RAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1, "maximize": True}),
    "Adamax": (optim.Adamax, {}),
    "Adamax weight_decay": (optim.Adamax, {"weight_decay": 0.1, "maximize": True}),
    "ASGD": (optim.ASGD, {"t0": 3, "lambd": 0.1}),
    "ASGD weight_decay": (optim.ASGD, {"weight_decay": 0.1, "maximize": True, "alpha": 0.5}),
    "Rprop": (optim.Rprop, {}),
    "Rprop maximize": (optim.Rprop, {"maximize": True, "etas": (0.4, 1.3), "step_sizes": (1e-4, 0.1)}),
    "RMSprop": (optim.RMSprop, {}),
    "RMSprop centered": (optim.RMSprop, {"centered": True, "momentum": 0.9, "weight_decay": 0.1, "maximize": True}),
    "Adadelta": (optim.Adadelta, {}),
    "Adadelta weight_decay": (optim.Adadelta, {"weight_decay": 0.1, "maximize": True}),
}
#: These optimizers have no state that counts steps.
WITHOUT_COUNT: dict[str, tuple[type[optim.Optimizer], dict[str, Any]]] = {
    "SGD": (optim.SGD, {}),
    "SGD momentum": (optim.SGD, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1, "maximize": True}),
    "SGD nesterov": (optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "Adagrad": (optim.Adagrad, {"weight_decay": 0.1, "initial_accumulator_value": 0.1, "maximize": True}),
}
FUSED: dict[str, tuple[type[optim.Optimizer], dict[str, Any]]] = {
    name: row for name, row in {**CAPTURABLE, **WITHOUT_COUNT}.items() if name.split()[0] in ("Adam", "AdamW", "SGD")
}

Make = Callable[[Sequence[Tensor]], optim.Optimizer]


def parameters_and_gradients(dtype: torch.dtype, *shapes: tuple[int, ...]) -> tuple[list[Tensor], list[list[Tensor]]]:
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    return parameters, [[torch.randn(p.shape, generator=generator, dtype=dtype) for p in parameters] for _ in range(6)]


def after_steps(make: Make, dtype: torch.dtype, device: torch.device, *shapes: tuple[int, ...], captured: bool) -> Any:
    start, gradients = parameters_and_gradients(dtype, *shapes)
    parameters = [p.to(device).requires_grad_() for p in start]
    optimizer = make(parameters)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)

    def step_with(values: list[Tensor], step: Callable[[], Any]) -> None:
        for parameter, value in zip(parameters, values, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(value)
        step()

    if not captured:
        for values in gradients:
            step_with(values, optimizer.step)
        return [p.detach().cpu() for p in parameters]
    step_with(gradients[0], optimizer.step)
    step_with(gradients[1], lambda: None)
    graph, _ = capture(optimizer.step, warm_up=1)  # which is the second step
    for values in gradients[2:]:
        step_with(values, graph.replay)
    return [p.detach().cpu() for p in parameters]


SHAPES = ((3, 5), (9000,), (2, 3, 4))


def assert_replays_are_steps(make: Make, on_cpu: Make, dtype: torch.dtype, *shapes: tuple[int, ...]) -> None:
    with torch_mydev.fallback_mode("error"):
        got = after_steps(make, dtype, torch.device("mydev"), *shapes, captured=True)
    expected = after_steps(on_cpu, dtype, torch.device("cpu"), *shapes, captured=False)
    # Optimizers count steps on a device in float32, and so their factors are of that precision.
    torch.testing.assert_close(got, expected, **({"rtol": 1e-6, "atol": 1e-6} if dtype == torch.float64 else {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "one by one"])
@pytest.mark.parametrize("name", CAPTURABLE)
def test_capturable_steps(name: str, foreach: bool, dtype: torch.dtype) -> None:
    kind, options = CAPTURABLE[name]
    assert_replays_are_steps(
        lambda parameters: kind(parameters, foreach=foreach, capturable=True, **options),
        lambda parameters: kind(parameters, foreach=foreach, **options),
        dtype,
        *SHAPES,
    )


@pytest.mark.parametrize("name", ["Adam amsgrad", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adadelta"])
def test_learning_rate_on_the_device(name: str, device: torch.device) -> None:
    kind, options = CAPTURABLE[name]
    assert_replays_are_steps(
        lambda parameters: kind(
            parameters, lr=torch.tensor(0.02, device=device), foreach=True, capturable=True, **options
        ),
        lambda parameters: kind(parameters, lr=0.02, **options),
        torch.float32,
        *SHAPES,
    )


@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "one by one"])
@pytest.mark.parametrize("name", WITHOUT_COUNT)
def test_steps_that_are_all_alike(name: str, foreach: bool) -> None:
    kind, options = WITHOUT_COUNT[name]

    def make(parameters: Sequence[Tensor]) -> optim.Optimizer:
        return kind(parameters, lr=0.1, foreach=foreach, **options)

    assert_replays_are_steps(make, make, torch.float32, *SHAPES)


@pytest.mark.parametrize("name", FUSED)
def test_fused_steps(name: str) -> None:
    kind, options = FUSED[name]
    # From 2.15 on torch refuses to capture steps without this; earlier fused steps need no more than their own option.
    refused = name.startswith("Adam") and hasattr(kind, "_accelerator_graph_capture_health_check")
    required = {"capturable": True} if refused else {}
    assert_replays_are_steps(
        lambda parameters: kind(parameters, lr=0.05, fused=True, **required, **options),
        lambda parameters: kind(parameters, lr=0.05, foreach=False, **options),
        torch.float32,
        *SHAPES,
    )


@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_muon(adjust: str) -> None:
    def make(parameters: Sequence[Tensor]) -> optim.Optimizer:
        return optim.Muon(parameters, lr=0.05, weight_decay=0.1, adjust_lr_fn=adjust)

    start = after_steps(make, torch.float32, torch.device("mydev"), (4, 6), (8, 3), captured=True)
    eager = after_steps(make, torch.float32, torch.device("mydev"), (4, 6), (8, 3), captured=False)
    torch.testing.assert_close(start, eager)
    on_cpu = after_steps(make, torch.float32, torch.device("cpu"), (4, 6), (8, 3), captured=False)
    torch.testing.assert_close(start, on_cpu, atol=5e-3, rtol=5e-2)  # it computes in bfloat16


REFUSED: dict[str, tuple[Make, str]] = {
    **{
        name: (
            lambda parameters, kind=kind: kind(parameters, capturable=False),
            f"a step of {name} cannot be captured: .* make it with capturable=True",
        )
        for name, (kind, options) in CAPTURABLE.items()
        if " " not in name
    },
    "Adagrad with decay": (
        lambda parameters: optim.Adagrad(parameters, lr_decay=0.1),
        "a step of Adagrad cannot be captured: .* make it with lr_decay=0",
    ),
    "Adafactor": (optim.Adafactor, "a step of Adafactor cannot be captured: .* outside of the capture"),
    "LBFGS": (optim.LBFGS, "cannot be captured"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_steps_that_count_on_the_host_are_refused(name: str, device: torch.device) -> None:
    make, message = REFUSED[name]
    parameter = torch.ones(3, 4, device=device, requires_grad=True)
    optimizer = make([parameter])

    def closure() -> Tensor:
        loss = parameter.square().sum()
        optimizer.zero_grad()
        loss.backward()
        return loss

    closure()
    optimizer.step(closure if name == "LBFGS" else None)
    graph = torch.mydev.MyDevGraph()
    with pytest.raises(RuntimeError, match=message), torch.mydev.graph(graph):
        optimizer.step(closure if name == "LBFGS" else None)
    optimizer.step(closure if name == "LBFGS" else None)  # outside of a capture as before


def test_the_accelerators_graph_refuses_the_same(device: torch.device) -> None:
    parameter = torch.ones(3, device=device, requires_grad=True)
    parameter.grad = torch.ones_like(parameter)
    optimizer = optim.Adam([parameter])
    optimizer.step()
    graph = torch.accelerator.Graph()
    with pytest.raises(RuntimeError, match="a step of Adam cannot be captured"), torch.Stream(device), graph:
        optimizer.step()
    optimizer.step()
