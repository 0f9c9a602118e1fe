"""Holding compiled functions to what eager mode gives, and what the tests of compiling compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import torch_mydev

X = torch.linspace(-2, 2, 24).reshape(4, 6)


def mlp() -> nn.Module:
    """On the device, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)).to("mydev")


def graphs() -> list[Any]:
    """The compiled graphs since the fixture ``fresh_compiler`` forgot the earlier ones."""
    return torch_mydev.compile_report().graphs


def assert_like_eager(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Compiled and eager agree on values, gradients, strides and devices. Returns what the compiled one gave."""

    def run(callee: Callable[..., Any]) -> tuple[Any, list[Tensor | None]]:
        leaves = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in args]
        result = callee(*leaves)
        tensors = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(r, Tensor)]
        differentiable = [r.sum() for r in tensors if r.requires_grad]
        if differentiable:
            torch.stack([r.cpu() for r in differentiable]).sum().backward()
        return result, [x.grad if isinstance(x, Tensor) else None for x in leaves]

    expected, expected_grads = run(function)
    actual, grads = run(torch.compile(function, fullgraph=True, **options))
    torch.testing.assert_close(actual, expected, check_stride=True)
    torch.testing.assert_close(grads, expected_grads, check_stride=True)
    return actual
