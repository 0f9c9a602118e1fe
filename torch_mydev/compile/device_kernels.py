"""Operators whose kernels on the device are faster than the CPU's library or generated code, and what to know of them.

Measured by benchmarks/matmul.py, convolution.py and compile.py. They lay out their results as the CPU's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from torch_mydev import _C

aten = torch.ops.aten


@dataclass(frozen=True)
class DeviceKernel:
    """How generated code calls an operator of the device, and when."""

    #: A builtin function (csrc/python/extern_kernel_bindings.cpp): a call by the dispatcher costs several times what a
    #: small kernel does.
    function: Callable[..., Any]
    #: It writes into a given result, ``out=``; else it takes all arguments, and returns its results.
    into_result: bool = False
    #: Graphs keep each call of the operator as a device call; else only those that channels_last.py adds.
    kept: bool = True
    #: Inductor has kernels for packed weights in its place, where these are constants.
    better_frozen: bool = False
    #: How many of its first operands are images, which are best channels-last.
    images: int = 0
    #: It is not taken apart (decompositions.py).
    whole: bool = False
    #: The CPU's kernel takes its operands' layouts on trust. The device call sees to them; nothing else would.
    trusts_layouts: bool = False


DEVICE_KERNELS: dict[OpOverload, DeviceKernel] = {
    aten.mm.default: DeviceKernel(_C.device_mm, into_result=True, better_frozen=True),
    aten.bmm.default: DeviceKernel(_C.device_bmm, into_result=True, better_frozen=True),
    aten.addmm.default: DeviceKernel(_C.device_addmm, into_result=True, better_frozen=True),
    aten.baddbmm.default: DeviceKernel(_C.device_baddbmm, into_result=True, better_frozen=True),
    aten.clone.default: DeviceKernel(_C.device_clone, kept=False),
    aten.convolution.default: DeviceKernel(_C.device_convolution, images=1, better_frozen=True),
    aten.convolution_backward.default: DeviceKernel(_C.device_convolution_backward, images=2),
    aten.max_pool2d_with_indices.default: DeviceKernel(_C.device_max_pool2d_with_indices, whole=True),
    aten.max_pool2d_with_indices_backward.default: DeviceKernel(_C.device_max_pool2d_with_indices_backward, whole=True),
    aten.native_group_norm.default: DeviceKernel(_C.device_native_group_norm, whole=True, trusts_layouts=True),
    aten.native_group_norm_backward.default: DeviceKernel(
        _C.device_native_group_norm_backward, whole=True, trusts_layouts=True
    ),
}
