"""Forward-mode differentiation of LSTM, GRU and their cells, against reverse mode and the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

MODULES: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTM(4, 5),
    "lstm of two layers, both directions": lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True),
    "lstm without bias": lambda: nn.LSTM(4, 5, bias=False),
    "lstm with projection": lambda: nn.LSTM(4, 5, proj_size=3),
    "gru": lambda: nn.GRU(4, 5),
    "gru of two layers, both directions": lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True),
    "gru without bias": lambda: nn.GRU(4, 5, bias=False),
    "lstm cell": lambda: nn.LSTMCell(4, 5),
    "lstm cell without bias": lambda: nn.LSTMCell(4, 5, bias=False),
    "gru cell": lambda: nn.GRUCell(4, 5),
    "gru cell without bias": lambda: nn.GRUCell(4, 5, bias=False),
}


def output(result: Any) -> torch.Tensor:
    """A sequence's or cell's output, and the states with it."""
    if isinstance(result, torch.Tensor):
        return result
    states = result[1] if isinstance(result[1], tuple) else (result[1],)
    return torch.cat([result[0].flatten(), *[state.flatten() for state in states]])


def make(name: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    module = MODULES[name]().to(dtype)
    sizes = (2, 4) if "cell" in name else (3, 2, 4)
    return module, torch.randn(sizes, dtype=dtype), torch.randn(sizes, dtype=dtype)


def tangent_by_reverse_mode(function: Callable[..., torch.Tensor], x: Any, tangent: Any) -> torch.Tensor:
    """Returns the result for forward mode, where the CPU has none: the derivative of the vector-Jacobian product."""
    _, tangent_out = torch.autograd.functional.jvp(function, x, tangent)
    return tangent_out


@pytest.mark.parametrize("name", MODULES)
def test_tangent_of_the_input(name: str) -> None:
    module, x, tangent = make(name, torch.float64)
    expected = tangent_by_reverse_mode(lambda x: output(module(x)), x, tangent)
    on_device = module.to("mydev")
    value, actual = torch.func.jvp(lambda x: output(on_device(x)), (x.to("mydev"),), (tangent.to("mydev"),))
    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(value, output(on_device(x.to("mydev"))))


@pytest.mark.parametrize("name", MODULES)
def test_tangents_of_the_parameters(name: str) -> None:
    module, x, _ = make(name, torch.float64)
    names = [key for key, _ in module.named_parameters()]
    values = tuple(p.detach() for p in module.parameters())
    tangents = tuple(torch.randn_like(value) for value in values)

    def run(*values: torch.Tensor) -> torch.Tensor:
        where = values[0].device
        return output(torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x.to(where),)))

    expected = tangent_by_reverse_mode(run, values, tangents)
    _, actual = torch.func.jvp(run, *(tuple(t.to("mydev") for t in group) for group in (values, tangents)))
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("name", ["lstm cell", "gru cell", "gru"])
def test_dual_tensors_agree_with_the_cpu(name: str) -> None:
    module, x, tangent = make(name)
    results = []
    for device in ("cpu", "mydev"):
        on_device = module.to(device)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.to(device), tangent.to(device))
            results.append([t.detach().cpu() for t in forward_ad.unpack_dual(output(on_device(dual)))])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("name", ["lstm cell", "gru cell"])
def test_forward_over_reverse(name: str) -> None:
    module, x, tangent = make(name)

    def gradient(module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        return torch.func.grad(lambda x: output(module(x)).square().sum())

    expected = torch.func.jvp(gradient(module), (x,), (tangent,))
    on_device = module.to("mydev")
    actual = torch.func.jvp(gradient(on_device), (x.to("mydev"),), (tangent.to("mydev"),))
    torch.testing.assert_close([t.cpu() for t in actual], list(expected))


@pytest.mark.parametrize("name", ["lstm cell", "gru cell"])
def test_reverse_mode_keeps_its_fused_cell(name: str) -> None:
    module, x, _ = make(name)
    result = output(module.to("mydev")(x.to("mydev").requires_grad_()))
    assert result.requires_grad
    nodes, seen = [result.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None:
            seen.add(node.name())
            nodes += [inner for inner, _ in node.next_functions]
    assert any("ThnnFused" in node for node in seen), seen
