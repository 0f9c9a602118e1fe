"""Reductions, softmax, losses, normalisation, indexing and random fills: mydev against the CPU device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from interleaved import Benchmark

import torch_mydev

DEVICE = torch.device(torch_mydev.device_name)


def main() -> None:
    benchmark = Benchmark("reduction")

    def compare(name: str, function: Callable[..., Any], *operands: torch.Tensor) -> None:
        moved = [operand.to(DEVICE) for operand in operands]
        benchmark.row(name, cpu=lambda: function(*operands), mydev=lambda: function(*moved))

    def compare_gradient(name: str, function: Callable[..., torch.Tensor], *operands: torch.Tensor) -> None:
        def step(*leaves: torch.Tensor) -> None:
            torch.autograd.grad(function(*leaves).sum(), [leaf for leaf in leaves if leaf.requires_grad])

        leaves = [operand.requires_grad_() if operand.is_floating_point() else operand for operand in operands]
        moved = [leaf.detach().to(DEVICE).requires_grad_(leaf.requires_grad) for leaf in leaves]
        benchmark.row(name, cpu=lambda: step(*leaves), mydev=lambda: step(*moved))

    small, square, image = torch.randn(16, 16), torch.randn(1024, 1024), torch.randn(32, 64, 16, 16)
    compare("sum, 16x16", torch.sum, small)
    compare("sum(0), 16x16", lambda x: x.sum(0), small)
    compare("sum, 1024x1024", torch.sum, square)
    for size in (256, 1024, 4096):
        of_size = torch.randn(size, size)
        compare(f"sum(0), {size}x{size}", lambda x: x.sum(0), of_size)
        compare(f"sum(1), {size}x{size}", lambda x: x.sum(1), of_size)
    compare("mean over channels, 32x64x16x16", lambda x: x.mean((0, 2, 3)), image)
    compare("amax(1), 1024x1024", lambda x: x.amax(1), square)
    compare("argmax(1), 64x10", lambda x: x.argmax(1), torch.randn(64, 10))
    compare("argmax(1), 1024x1024", lambda x: x.argmax(1), square)
    compare("max(0), 1024x1024", lambda x: x.max(0), square)
    compare("var_mean(1), 1024x1024", lambda x: torch.var_mean(x, 1), square)
    compare("norm, 1024x1024", torch.linalg.vector_norm, square)
    million = torch.randn(1 << 20)
    compare("sort, 1M", torch.sort, million)
    compare("sort, 1M of s64", torch.sort, torch.randint(0, 1 << 40, (1 << 20,)))
    compare("sort(1), 1024x1024", lambda x: x.sort(1), square)
    compare("sort(0), 1024x1024", lambda x: x.sort(0), square)
    compare("sort, 4096", torch.sort, torch.randn(4096))
    compare("sort(1), 64x64", lambda x: x.sort(1), torch.randn(64, 64))
    compare("sort, 16", torch.sort, torch.randn(16))
    half, few = million > 0, million > 2
    compare("x[mask], half of 1M", lambda x, m: x[m], million, half)
    compare("x[mask], a fiftieth of 1M", lambda x, m: x[m], million, few)
    compare("x[mask], 16", lambda x, m: x[m], million[:16], half[:16])
    compare("nonzero, half of 1M", torch.nonzero, half)
    whole = torch.randint(0, 1000, (1 << 20,))
    compare("unique, 1M of 1000 integers", torch.unique, whole)
    compare(
        "unique with inverse and counts, 1M", lambda x: torch.unique(x, return_inverse=True, return_counts=True), whole
    )
    compare("topk(10), 1M", lambda x: x.topk(10), million)
    compare("topk(10), 1024x1024", lambda x: x.topk(10), square)
    compare("topk(200), 1024x1024", lambda x: x.topk(200), square)
    compare("topk(5), 64x64", lambda x: x.topk(5), torch.randn(64, 64))
    compare("adaptive_avg_pool2d(1), 32x64x16x16", lambda x: F.adaptive_avg_pool2d(x, 1), image)
    compare("adaptive_avg_pool2d(1), 8x512x7x7", lambda x: F.adaptive_avg_pool2d(x, 1), torch.randn(8, 512, 7, 7))

    compare("softmax(1), 64x10", lambda x: torch.softmax(x, 1), torch.randn(64, 10))
    compare("softmax(1), 1024x1024", lambda x: torch.softmax(x, 1), square)
    compare("log_softmax(1), 256x256", lambda x: torch.log_softmax(x, 1), torch.randn(256, 256))
    compare("log_softmax(1), 1024x1024", lambda x: torch.log_softmax(x, 1), square)
    compare("log_softmax(0), 1024x1024", lambda x: torch.log_softmax(x, 0), square)
    targets = torch.randint(0, 10, (64,))
    compare_gradient("cross_entropy fwd+bwd, 64x10", F.cross_entropy, torch.randn(64, 10), targets)
    compare_gradient("cross_entropy fwd+bwd, 1024x8192", F.cross_entropy, torch.randn(1024, 8192), targets.repeat(16))
    compare_gradient("mse_loss fwd+bwd, 1024x1024", F.mse_loss, square.clone(), square + 1)

    weight, bias = torch.randn(64), torch.randn(64)
    compare_gradient(
        "batch_norm fwd+bwd, 32x64x16x16",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        image.clone(),
        weight,
        bias,
    )
    for size in (256, 1024):
        compare_gradient(
            f"layer_norm fwd+bwd, {size}x{size}",
            lambda x, w, b: F.layer_norm(x, w.shape, w, b),
            torch.randn(size, size),
            torch.randn(size),
            torch.randn(size),
        )
    indices = torch.randint(0, 5000, (64, 32))
    compare_gradient("embedding fwd+bwd, 5000x64", lambda w, i: F.embedding(i, w), torch.randn(5000, 64), indices)
    compare("cat, 2 of 1024x1024", lambda x: torch.cat([x, x], 1), square)
    compare("stack, 8 of 16x16", lambda x: torch.stack([x] * 8), small)
    compare("index_select, 1024x1024", lambda x, i: x.index_select(0, i), square, torch.randint(0, 1024, (1024,)))
    compare("gather(1), 1024x1024", lambda x, i: x.gather(1, i), square, torch.randint(0, 1024, (1024, 1024)))
    compare("isin, 16 among 4", torch.isin, torch.randint(0, 99, (16,)), torch.randint(0, 99, (4,)))
    compare("isin, 1000 among 20", torch.isin, torch.randint(0, 99, (1000,)), torch.randint(0, 99, (20,)))
    compare("arange, 1M", lambda x: torch.arange(1 << 20, device=x.device), small)
    compare("uniform_, 1M", lambda x: x.uniform_(), square.clone())
    compare("normal_, 1M", lambda x: x.normal_(), square.clone())
    compare("exponential_, 1M", lambda x: x.exponential_(), square.clone())
    compare("bernoulli_, 1M", lambda x: x.bernoulli_(0.3), square.clone())
    compare("dropout, 1M", lambda x: F.dropout(x, 0.2), square)
    compare("dropout, 64x128", lambda x: F.dropout(x, 0.2), torch.randn(64, 128))


if __name__ == "__main__":
    main()
