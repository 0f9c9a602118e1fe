"""Convolutions and pooling, forward alone and forward with backward, channels-first and channels-last.

Run from the repository: ``python benchmarks/convolution.py [part of a row's name]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from interleaved import Benchmark
from torch import Tensor

import torch_mydev

# name, input, weight, options
CONVOLUTIONS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("digits 1->16, 8x8 N64", (64, 1, 8, 8), (16, 1, 3, 3), {"padding": 1}),
    ("digits 16->32, 8x8 N64", (64, 16, 8, 8), (32, 16, 3, 3), {"padding": 1}),
    ("digits 16->32, 4x4 N64", (64, 16, 4, 4), (32, 16, 3, 3), {"padding": 1}),
    ("3x3 64->64, 56x56 N8", (8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    ("3x3 64->64, 16x16 N32", (32, 64, 16, 16), (64, 64, 3, 3), {"padding": 1}),
    ("3x3 256->256, 14x14 N8", (8, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
    ("3x3 512->512, 7x7 N1", (1, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
    ("3x3 s2 64->64, 2x2 N8", (8, 64, 2, 2), (64, 64, 3, 3), {"stride": 2, "padding": 1}),
    ("1x1 256->64, 56x56 N8", (8, 256, 56, 56), (64, 256, 1, 1), {}),
    ("1x1 64->256, 56x56 N1", (1, 64, 56, 56), (256, 64, 1, 1), {}),
    ("depthwise 144, 56x56 N8", (8, 144, 56, 56), (144, 1, 3, 3), {"padding": 1, "groups": 144}),
    ("depthwise 7x7 96, 14x14 N8", (8, 96, 14, 14), (96, 1, 7, 7), {"padding": 3, "groups": 96}),
    ("7x7 s2 3->64, 224x224 N1", (1, 3, 224, 224), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
]
POOLS: list[tuple[str, tuple[int, ...], Callable[[Tensor], Tensor]]] = [
    ("max 2, 64x16x8x8", (64, 16, 8, 8), lambda x: F.max_pool2d(x, 2)),
    ("max 3 s2, 8x64x56x56", (8, 64, 56, 56), lambda x: F.max_pool2d(x, 3, 2, 1)),
    ("average 2, 8x64x56x56", (8, 64, 56, 56), lambda x: F.avg_pool2d(x, 2)),
    ("adaptive to 7x7, 8x64x56x56", (8, 64, 56, 56), lambda x: F.adaptive_avg_pool2d(x, 7)),
]


def main() -> None:
    benchmark = Benchmark("convolution and pooling")
    device = torch_mydev.device_name

    def compare(name: str, function: Callable[..., Tensor], *operands: Tensor) -> None:
        lanes = []
        for place in ("cpu", device):
            leaves = [operand.detach().to(place).requires_grad_() for operand in operands]
            gradient = torch.ones_like(function(*leaves))

            def forward(leaves: list[Tensor] = leaves) -> object:
                with torch.no_grad():
                    return function(*leaves)

            def backward(leaves: list[Tensor] = leaves, gradient: Tensor = gradient) -> object:
                return torch.autograd.grad(function(*leaves), leaves, gradient)

            lanes.append((forward, backward))
        (cpu_forward, cpu_backward), (forward, backward) = lanes
        benchmark.row(name, cpu=cpu_forward, mydev=forward)
        benchmark.row(name + ", fwd + bwd", cpu=cpu_backward, mydev=backward)

    for name, size, weight, options in CONVOLUTIONS:
        operands = torch.randn(size), torch.randn(weight), torch.randn(weight[0])

        def convolve(x: Tensor, w: Tensor, b: Tensor, options: dict[str, Any] = options) -> Tensor:
            return F.conv2d(x, w, b, **options)

        compare(name, convolve, *operands)
        if "digits" not in name:
            compare(name + ", nhwc", convolve, operands[0].contiguous(memory_format=torch.channels_last), *operands[1:])
    for name, size, pool in POOLS:
        compare(name, pool, torch.randn(size))


if __name__ == "__main__":
    main()
