"""Fused kernels of a user's library (examples/custom_calls) against PyTorch's operators, both on the device.

python benchmarks/custom_call_transformer.py [part of a row's name] [--rounds N]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from interleaved import Benchmark
from torch import Tensor

import torch_mydev

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "custom_calls"))
from build_library import build  # noqa: E402
from model import Transformer, composed_norm_rope, fused_norm_rope, rotation_table  # noqa: E402

DEVICE = torch_mydev.device_name
VOCABULARY, LENGTH = 11, 64


def training_step(fused: bool, batch: int, width: int) -> Callable[[], object]:
    torch.manual_seed(0)
    model = Transformer(VOCABULARY, LENGTH, width=width, fused=fused).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(0, VOCABULARY, (batch, LENGTH + 1)).to(DEVICE)
    targets = tokens[:, 1:].reshape(-1)

    def step() -> None:
        loss = F.cross_entropy(model(tokens[:, :-1]).reshape(-1, VOCABULARY), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.accelerator.synchronize()

    return step


def norm_rope(function: Callable[..., Tensor], shape: tuple[int, ...], backward: bool) -> Callable[[], object]:
    batch, heads, length, width = shape
    # A view with heads before time, as in attention.
    x = torch.randn(batch, length, heads, width, device=DEVICE).transpose(1, 2).requires_grad_(backward)
    weight = torch.rand(width, device=DEVICE).requires_grad_(backward)
    rotation = rotation_table(length, width).to(DEVICE)
    grad = torch.randn(shape, device=DEVICE)

    def run() -> None:
        y = function(x, weight, rotation)
        if backward:
            torch.autograd.grad(y, (x, weight), grad)
        torch.accelerator.synchronize()

    return run


def main() -> None:
    torch_mydev.load_custom_calls(build())
    benchmark = Benchmark("fused kernels", lanes=("composed", "fused"))
    for shape in ((2, 4, 16, 16), (8, 8, 128, 64)):
        for backward in (False, True):
            benchmark.row(
                f"norm + rope{' fwd+bwd' if backward else ''}, {'x'.join(map(str, shape))}",
                norm_rope(composed_norm_rope, shape, backward),
                norm_rope(fused_norm_rope, shape, backward),
            )
    for batch, width in ((2, 64), (16, 128)):
        benchmark.row(
            f"training step, batch {batch}, width {width}",
            training_step(False, batch, width),
            training_step(True, batch, width),
        )


if __name__ == "__main__":
    main()
