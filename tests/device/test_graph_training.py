"""Graphs of training steps: as eager, for optimizers, models, and callables whose passes replay graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from support import models
from support.graphs import capture

# --- training ---------------------------------------------------------------------------------------------------------


def mlp(device: torch.device) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5))
    inputs, targets = torch.randn(16, 20), torch.randint(5, (16,))
    return module.to(device), inputs.to(device), targets.to(device)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True, capturable=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=False, capturable=True),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_training_step_is_eagers(device: torch.device, optimizer: str) -> None:
    def prepare() -> tuple[nn.Module, Callable[[], Tensor]]:
        module, inputs, targets = mlp(device)
        steps = OPTIMIZERS[optimizer](module.parameters())

        def step() -> Tensor:
            steps.zero_grad(set_to_none=True)
            loss = F.cross_entropy(module(inputs), targets)
            loss.backward()
            steps.step()
            return loss.detach()

        return module, step

    eager, step = prepare()
    expected = [step().item() for _ in range(6)]
    graphed, step = prepare()
    graph, loss = capture(step, warm_up=2)
    losses = []
    for _ in range(4):
        graph.replay()
        losses.append(loss.item())
    assert losses == pytest.approx(expected[2:], rel=1e-6)
    for got, wanted in zip(graphed.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(got.cpu(), wanted.cpu())


@pytest.mark.parametrize("name", models.MODELS)
def test_steps_of_models_are_eagers(device: torch.device, name: str) -> None:
    def prepare() -> tuple[models.Example, Callable[[], Tensor]]:
        torch.manual_seed(0)
        example = models.build(name).to(device)
        optimizer = torch.optim.SGD(example.module.parameters(), lr=0.01)

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = example.loss()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return example, step

    eager, step = prepare()
    expected = [step().item() for _ in range(3)]
    graphed, step = prepare()
    graph, loss = capture(step)
    losses = []
    for _ in range(2):
        graph.replay()
        losses.append(loss.item())
    assert losses == pytest.approx(expected[1:], rel=1e-5)
    for got, wanted in zip(graphed.module.parameters(), eager.module.parameters(), strict=True):
        torch.testing.assert_close(got.cpu(), wanted.cpu())


# --- make_graphed_callables -------------------------------------------------------------------------------------------


def test_a_graphed_module_trains_as_the_module(device: torch.device) -> None:
    losses = []
    for graphed in (False, True):
        module, inputs, targets = mlp(device)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        run = torch.mydev.make_graphed_callables(module, (torch.randn_like(inputs),)) if graphed else module
        assert not graphed or run is module
        losses.append([])
        for step in range(4):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(run(inputs + step), targets)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
        module.eval()
        losses[-1].append(run(inputs).sum().item())  # not the graph's mode: runs as it is
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_graphed_functions_differentiate_their_arguments(device: torch.device) -> None:
    def first(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"sum": x + y, "product": x * y}

    def second(x: Tensor) -> Tensor:
        return x.sin()

    x, y = (torch.randn(7, device=device, requires_grad=True) for _ in range(2))
    one, two = torch.mydev.make_graphed_callables(
        (first, second),
        ((x.detach().clone().requires_grad_(), y.detach().clone()), (x.detach().clone().requires_grad_(),)),
    )
    results = one(x, y)
    (two(results["sum"]) + results["product"]).sum().backward()
    assert x.grad is not None
    expected = (x + y).cos() + y
    torch.testing.assert_close(x.grad.cpu(), expected.detach().cpu())
    assert y.grad is None  # the sample needed none


def test_outputs_without_a_gradient_stay_so(device: torch.device) -> None:
    sample = torch.ones(4, device=device, requires_grad=True)
    run = torch.mydev.make_graphed_callables(lambda x: (x * 2, x.detach() * 3, (x > 0).sum()), (sample,))
    x = torch.full((4,), 5.0, device=device, requires_grad=True)
    double, triple, count = run(x)
    assert (double.requires_grad, triple.requires_grad, count.requires_grad) == (True, False, False)
    assert triple.cpu().tolist() == [15] * 4
    assert count.item() == 4
    double.sum().backward()
    assert x.grad is not None
    assert x.grad.cpu().tolist() == [2] * 4


def test_graphed_callables_refuse_what_they_cannot_keep(device: torch.device) -> None:
    module = nn.Linear(3, 3).to(device)
    with pytest.raises(TypeError, match="tensors only, not int"):
        torch.mydev.make_graphed_callables(module, (torch.ones(3, device=device), 3))
    with pytest.raises(ValueError, match="2 callables, but 1"):
        torch.mydev.make_graphed_callables((module, module), ((torch.ones(3, device=device),),))
    module.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="has hooks"):
        torch.mydev.make_graphed_callables(module, (torch.ones(3, device=device),))


# [docs: step]
def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()
    # [docs: end]


def test_the_loop_of_the_documentation_trains(device: torch.device) -> None:
    torch.manual_seed(0)
    model = nn.Linear(784, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    images, labels = torch.rand(64, 784), torch.arange(64) % 10
    loader = [(images, labels)] * 30
    losses = []

    # [docs: loop]
    static_input = torch.zeros(64, 784, device="mydev")
    static_target = torch.zeros(64, dtype=torch.long, device="mydev")

    side = torch.mydev.Stream()  # warm up: what is made at first use is made now
    side.wait_stream(torch.mydev.current_stream())
    with torch.mydev.stream(side):
        for _ in range(2):
            train_step(model, optimizer, static_input, static_target)
    torch.mydev.current_stream().wait_stream(side)

    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        loss = train_step(model, optimizer, static_input, static_target)  # nothing runs

    for inputs, targets in loader:
        static_input.copy_(inputs)
        static_target.copy_(targets)
        graph.replay()
        # [docs: end]
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
