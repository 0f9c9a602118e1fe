"""Measures what a custom call costs: a typed-FFI kernel of two operands against the device's own ``torch.add``.

The rival is ``torch.add`` on the same operands, both on the device: a ratio of 0.5 is a call of twice the time.
Needs the test libraries: configure with -DMYDEV_BUILD_TESTS=ON.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from interleaved import Benchmark

import torch_mydev

ROOT = Path(__file__).resolve().parent.parent
KERNELS = Path(os.environ.get("MYDEV_BUILD_DIR", ROOT / "build" / "release")) / "kernels"


def main() -> None:
    torch_mydev.load_custom_calls(KERNELS / "xla_kernels.so")
    a, b = (torch.randn(16).to(torch_mydev.device_name) for _ in range(2))
    by_name = torch_mydev.ffi_call("typed.add", a)
    operator, scale = torch.ops.mydev_cc.typed_add, torch.ops.mydev_cc.typed_scale
    leaf = a.clone().requires_grad_()
    benchmark = Benchmark("custom calls", lanes=("add", "call"))
    benchmark.row("ffi_call, 16", cpu=lambda: torch.add(a, b), mydev=lambda: by_name(a, b))
    benchmark.row("torch.ops.mydev_cc, 16", cpu=lambda: torch.add(a, b), mydev=lambda: operator(a, b))
    benchmark.row("torch.ops.mydev_cc default, 16", cpu=lambda: torch.add(a, b), mydev=lambda: operator.default(a, b))
    benchmark.row("torch.ops.mydev_cc, attribute, 16", cpu=lambda: torch.add(a, b), mydev=lambda: scale(a, scale=2.0))
    benchmark.row("torch.ops.mydev_cc, gradient, 16", cpu=lambda: torch.add(leaf, b), mydev=lambda: operator(leaf, b))


if __name__ == "__main__":
    main()
