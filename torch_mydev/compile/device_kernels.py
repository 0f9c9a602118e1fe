"""The operators that graphs compiled for the host keep as calls of the device because its kernels are faster.

The list comes from C++, beside the functions that it names (csrc/python/extern_kernel_bindings.cpp). Its users are:
device_call.py keeps and lowers the calls, decompositions.py keeps operators whole, channels_last.py lays out images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from torch_mydev import _C


@dataclass(frozen=True)
class DeviceKernel:
    """An operator, and what the compiler needs to know of its kernel on the device."""

    op: OpOverload
    call: Callable[..., Any]  #: a builtin function: calling an operator from Python costs as much as a small kernel
    is_product: bool  #: the call writes into ``out``, and takes ``alpha`` and ``beta``; others return their results
    faster: bool  #: than the CPU's library and generated code: each call of it is kept
    better_frozen: bool  #: but not with a constant operand, which Inductor's kernels pack beforehand
    whole: bool  #: Inductor must not decompose it
    trusts_layouts: bool  #: and only where the call is kept, which sees to its operands' layouts
    images: int  #: how many of its first operands are images, which are faster channels-last


def _read(row: dict[str, Any]) -> DeviceKernel:
    return DeviceKernel(**(row | {"op": getattr(torch.ops.aten, row["op"]).default}))


DEVICE_KERNELS = {kernel.op: kernel for kernel in map(_read, _C.device_kernels)}
