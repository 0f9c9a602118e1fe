"""What a custom call costs: a typed-FFI kernel of two operands against the device's own ``torch.add``.

The rival is ``torch.add`` on the same operands, both on the device: a ratio of 0.5 is a call of twice the time.
Needs the test libraries: configure with -DMYDEV_BUILD_TESTS=ON.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch
from interleaved import Benchmark

import torch_mydev

ROOT = Path(__file__).resolve().parent.parent
KERNELS = Path(os.environ.get("MYDEV_BUILD_DIR", ROOT / "build" / "release")) / "kernels"


def main() -> None:
    torch_mydev.load_custom_calls(KERNELS / "operator_kernels.so")
    torch_mydev.register_ffi_target("bench.add", ctypes.CDLL(str(KERNELS / "xla_kernels.so")).typed_add)
    a, b = (torch.randn(16).to(torch_mydev.device_name) for _ in range(2))
    typed = torch_mydev.ffi_call("bench.add", a)
    operator = torch.ops.mydev_cc.test_product
    benchmark = Benchmark("custom calls; cpu = torch.add on mydev")
    benchmark.row("ffi_call of typed FFI, 16", cpu=lambda: torch.add(a, b), mydev=lambda: typed(a, b))
    benchmark.row("torch.ops.mydev_cc, 16", cpu=lambda: torch.add(a, b), mydev=lambda: operator(a, b))
    benchmark.row("torch.ops.mydev_cc default, 16", cpu=lambda: torch.add(a, b), mydev=lambda: operator.default(a, b))
    with torch.no_grad():
        benchmark.row("torch.ops.mydev_cc, no_grad, 16", cpu=lambda: torch.add(a, b), mydev=lambda: operator(a, b))


if __name__ == "__main__":
    main()
