"""Attention of prefills, forward alone and forward with backward: heads of their own, and heads shared by groups.

Run from the repository: ``python benchmarks/attention.py [part of a row's name]``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from interleaved import Benchmark
from torch import Tensor

import torch_mydev

# name, batch, heads of the query, of key and value, length, width of a head, dtype
PREFILLS = [
    ("12 heads, T256", 1, 12, 12, 256, 64, torch.float32),
    ("12 heads, T1024", 1, 12, 12, 1024, 64, torch.float32),
    ("8 x 12 heads, T64", 8, 12, 12, 64, 64, torch.float32),
    ("8 x 12 heads, T256", 8, 12, 12, 256, 64, torch.float32),
    ("8 x 12 heads, T1024", 8, 12, 12, 1024, 64, torch.float32),
    ("8 x 12 heads, T64, bf16", 8, 12, 12, 64, 64, torch.bfloat16),
    ("8 x 12 heads, T256, bf16", 8, 12, 12, 256, 64, torch.bfloat16),
    ("8 x 12 heads, T1024, bf16", 8, 12, 12, 1024, 64, torch.bfloat16),
    ("32/8 heads, T256", 1, 32, 8, 256, 64, torch.float32),
    ("32/8 heads, T1024", 1, 32, 8, 1024, 64, torch.float32),
    ("14/2 heads, T1024", 1, 14, 2, 1024, 64, torch.float32),
    ("32/8 heads, T2048", 1, 32, 8, 2048, 64, torch.float32),
]


def main() -> None:
    benchmark = Benchmark("causal attention")
    for name, batch, heads, shared, length, width, dtype in PREFILLS:
        lanes = []
        for place in ("cpu", torch_mydev.device_name):
            torch.manual_seed(0)
            sizes = [(batch, h, length, width) for h in (heads, shared, shared)]
            operands = [torch.randn(size).to(place, dtype).requires_grad_() for size in sizes]
            lanes.append((_forward(operands), _backward(operands)))
        (cpu_forward, cpu_backward), (forward, backward) = lanes
        benchmark.row(name, cpu=cpu_forward, mydev=forward)
        benchmark.row(name + ", fwd + bwd", cpu=cpu_backward, mydev=backward)
    benchmark.print_mean()


def _attention(operands: list[Tensor]) -> Tensor:
    return F.scaled_dot_product_attention(*operands, is_causal=True, enable_gqa=True)


def _forward(operands: list[Tensor]) -> Callable[[], object]:
    def forward() -> object:
        with torch.no_grad():
            return _attention(operands)

    return forward


def _backward(operands: list[Tensor]) -> Callable[[], object]:
    def backward() -> object:
        return torch.autograd.grad(_attention(operands).sum(), operands)

    return backward


if __name__ == "__main__":
    main()
