"""Pointwise operators: dispatch of small tensors, bandwidth and arithmetic of large ones.

Run from the repository: ``python benchmarks/pointwise.py [part of a row's name]``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from interleaved import Benchmark

import torch_mydev

Function = Callable[..., object]

SMALL: list[tuple[str, Function]] = [
    ("a + b, 16", lambda a, b: a + b),
    ("a.add_(b), 16", lambda a, b: a.add_(b)),
    ("a * 2.0, 16", lambda a, b: a * 2.0),
    ("a > b, 16", lambda a, b: a > b),
    ("relu, 16", lambda a, b: torch.relu(a)),
    ("a + b, broadcast 4x4 + 4", lambda a, b: a.view(4, 4) + b[:4]),
]
LARGE: list[tuple[str, Function]] = [
    ("add, 1M", torch.add),
    ("mul, 1M", torch.mul),
    ("exp, 1M", lambda a, b: torch.exp(a)),
    ("log, 1M", lambda a, b: torch.log(a)),
    ("tanh, 1M", lambda a, b: torch.tanh(a)),
    ("sigmoid, 1M", lambda a, b: torch.sigmoid(a)),
    ("sin, 1M", lambda a, b: torch.sin(a)),
    ("gelu, 1M", lambda a, b: F.gelu(a)),
    ("gelu tanh, 1M", lambda a, b: F.gelu(a, approximate="tanh")),
    ("silu, 1M", lambda a, b: F.silu(a)),
    ("pow 2.5, 1M", lambda a, b: torch.pow(a, 2.5)),
    ("a > b, 1M", torch.gt),
    ("where, 1M", lambda a, b: torch.where(a > b, a, b)),
    ("masked_fill, 1M", lambda a, b: a.masked_fill(b > 0, 0.0)),
    ("row broadcast add, 1024x1024", lambda a, b: a.view(1024, 1024) + b[:1024]),
    ("transposed add, 1024x1024", lambda a, b: a.view(1024, 1024) + b.view(1024, 1024).t()),
    ("images + channels last, 1M", lambda a, b: a.view(4, 64, 64, 64) + b.view(4, 64, 64, 64).permute(0, 3, 1, 2)),
    ("transpose copy, 1024x1024", lambda a, b: a.view(1024, 1024).t().contiguous()),
    (
        "transposed to bfloat16, 1M",
        lambda a, b: torch.empty(1024, 1024, dtype=torch.bfloat16, device=a.device).copy_(a.view(1024, 1024).t()),
    ),
    ("to bfloat16, 1M", lambda a, b: a.to(torch.bfloat16)),
    ("clone, 1M", lambda a, b: a.clone()),
]


def main() -> None:
    benchmark = Benchmark("pointwise")
    device = torch_mydev.device_name

    def compare(name: str, function: Function, *operands: torch.Tensor) -> None:
        moved = [operand.detach().to(device).requires_grad_(operand.requires_grad) for operand in operands]
        benchmark.row(name, cpu=lambda: function(*operands), mydev=lambda: function(*moved))

    for name, function in SMALL:
        compare(name, function, torch.randn(16), torch.randn(16))
    compare("a + b with grad, 16", lambda a, b: a + b, torch.randn(16, requires_grad=True), torch.randn(16))
    for name, function in LARGE:
        compare(name, function, torch.rand(1 << 20), torch.rand(1 << 20))
    compare("gelu, 256x256", lambda a: F.gelu(a), torch.randn(256, 256))
    half = torch.randn(1 << 20).to(torch.bfloat16)
    compare("bfloat16 add, 1M", torch.add, half, half.clone())
    compare("bfloat16 exp, 1M", lambda a: torch.exp(a), half)
    for dtype in (torch.uint8, torch.int32, torch.int64):
        a, b = (torch.randint(1, 100, (1 << 20,), dtype=dtype) for _ in range(2))
        name = str(dtype).removeprefix("torch.")
        compare(f"{name} add, 1M", torch.add, a, b)
        compare(f"{name} a < b, 1M", torch.lt, a, b)
        compare(f"{name} a // b, 1M", torch.floor_divide, a, b)
        compare(f"{name} a % 7, 1M", lambda a: a % 7, a)
    truth = torch.rand(1 << 20) > 0.5
    compare("bool a & b, 1M", torch.logical_and, truth, truth.flip(0))
    compare("add, fresh 64 MiB", torch.add, torch.randn(4096, 4096), torch.randn(4096, 4096))
    compare("exp, fresh 64 MiB", torch.exp, torch.randn(4096, 4096))


if __name__ == "__main__":
    main()
