"""Matrix products: small, square, skinny and wide ones, half types, integers, and a linear layer forward and backward.

Run from the repository: ``python benchmarks/matmul.py [part of a row's name]``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from interleaved import Benchmark
from torch import Tensor

import torch_mydev

# rows, columns, summed
SQUARE_AND_SKINNY = [
    (16, 16, 16),
    (32, 32, 32),
    (64, 64, 64),
    (128, 128, 128),
    (512, 512, 512),
    (1024, 1024, 1024),
    (1, 768, 768),
    (8, 768, 768),
    (128, 3072, 768),
]
HALF = [(64, 64, 64), (256, 256, 256), (128, 3072, 768)]
HALF_LINEAR = [(1, 768, 768), (4, 3072, 768), (1, 4096, 4096)]
# batch, in, out
LINEAR = [(64, 64, 128), (64, 128, 128), (1, 768, 768), (128, 768, 3072)]


def forward_backward(x: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor) -> None:
    torch.autograd.grad(F.linear(x, weight, bias), (x, weight, bias), gradient)


def main() -> None:
    benchmark = Benchmark("matmul")
    device = torch_mydev.device_name

    def compare(name: str, function: Callable[..., object], *operands: Tensor) -> None:
        moved = [operand.detach().to(device).requires_grad_(operand.requires_grad) for operand in operands]
        benchmark.row(name, cpu=lambda: function(*operands), mydev=lambda: function(*moved))

    for m, n, k in SQUARE_AND_SKINNY:
        compare(f"mm {m}x{n}x{k}", torch.mm, torch.randn(m, k), torch.randn(k, n))
    for m, n, k in ((128, 3072, 768), (256, 1024, 1024), (512, 512, 512)):  # rows of b lie a multiple of 2 KiB apart
        compare(f"mm {m}x{n}x{k}, a transposed", lambda a, b: a.t() @ b, torch.randn(k, m), torch.randn(k, n))
    compare("mm 64x64x64, b transposed", lambda a, b: a @ b.t(), torch.randn(64, 64), torch.randn(64, 64))
    for m, n, k in ((1, 256, 64), (8, 256, 64), (8, 512, 128), (8, 3072, 768)):
        compare(f"mm {m}x{n}x{k}, b transposed", lambda a, b: a @ b.t(), torch.randn(m, k), torch.randn(n, k))
    compare("mv 768x768", torch.mv, torch.randn(768, 768), torch.randn(768))
    compare("dot 1000", torch.dot, torch.randn(1000), torch.randn(1000))
    compare("bmm 64 of 16x16x16", torch.bmm, torch.randn(64, 16, 16), torch.randn(64, 16, 16))
    compare("bmm 96 of 128x128x64", torch.bmm, torch.randn(96, 128, 64), torch.randn(96, 64, 128))
    for dtype in (torch.bfloat16, torch.float16):
        for m, n, k in HALF:
            name = f"mm {m}x{n}x{k}, {str(dtype).removeprefix('torch.')}"
            compare(name, torch.mm, torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype))
        for m, n, k in HALF_LINEAR:
            name = f"linear {m}x{k}x{n}, {str(dtype).removeprefix('torch.')}"
            compare(name, F.linear, torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype))
    for dtype in (torch.int8, torch.int32, torch.int64):
        for size in (8, 64, 256):
            operands = (torch.randint(-100, 100, (size, size), dtype=dtype) for _ in range(2))
            compare(f"mm {size}x{size}x{size}, {str(dtype).removeprefix('torch.')}", torch.mm, *operands)
    for batch, width, out in LINEAR:
        x, weight, bias = torch.randn(batch, width), torch.randn(out, width), torch.randn(out)
        compare(f"linear {batch}x{width}x{out}", F.linear, x, weight, bias)
        compare(
            f"linear {batch}x{width}x{out}, fwd + bwd",
            forward_backward,
            x.requires_grad_(),
            weight.requires_grad_(),
            bias.requires_grad_(),
            torch.randn(batch, out),
        )


if __name__ == "__main__":
    main()
