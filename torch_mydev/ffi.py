"""Calling kernels in jax.ffi's terms: for kernels without a signature, and for handlers compiled for XLA.

    register_ffi_target("rms_norm", ctypes.CDLL("librms.so").RmsNorm)
    y = ffi_call("rms_norm", x)(x, eps=np.float32(1e-5))
"""

from __future__ import annotations

import ctypes
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME

KernelKind = Literal[
    "original_host", "original_device", "status_host", "status_device", "unified_host", "unified_device"
]
VmapMethod = Literal["sequential", "expand_dims", "broadcast_all"]
FfiCall: TypeAlias = Callable[..., Any]
#: A tensor, or (shape, dtype); or a list or tuple of them, nested at will, for a tuple result.
ResultSpec: TypeAlias = Any


def register_ffi_target(
    name: str,
    fn: Any,
    platform: str = "cpu",
    api_version: int = 1,
    kind: KernelKind | None = None,
    traits: int = 0,
) -> None:
    """Registers a function as a kernel, under the terms of ``jax.ffi.register_ffi_target``.

    Args:
        name: letters, digits or any of ``_ . : -``.
        fn: a PyCapsule of any name, a ctypes function, an address, or a dict of those with the keys "instantiate",
            "prepare", "initialize" and "execute". It is kept alive for ever.
        platform: "cpu", or the device's name for a handler that enqueues its work on the device's stream.
        api_version: 1 for XLA's typed FFI, 0 for its older interfaces, which ``kind`` tells apart.
        kind: with ``api_version=0``: "original_host" (API version 1), "status_host" (2), "unified_host" (3), or their
            "…_device" forms.
        traits: bit 0: COMMAND_BUFFER_COMPATIBLE; bit 1: TUPLE_RESULT, see mydev/custom_call.h.

    Raises ValueError for a function that is no handler or speaks another version, and RuntimeError if another kernel has
    the name.
    """


def ffi_call(
    target_name: str,
    result_shape_dtypes: ResultSpec,
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Sequence[Sequence[int] | None] | None = None,
    output_layouts: Sequence[Sequence[int] | None] | Sequence[int] | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | bytes | None = None,
) -> FfiCall:
    """A function that calls a kernel by name, under the terms of ``jax.ffi.ffi_call``.

    The function takes tensors by position and the kernel's attributes by keyword, and returns what
    ``result_shape_dtypes`` describes: a tensor, or a list or tuple of them. Make it once and call it often.

    Attributes: bool is given to the handler as pred, int as s64, float as f64; numpy's scalars, 0-dimensional and other
    arrays keep their width (``np.float32(x)`` gives f32); str and bytes are strings, dicts dictionaries.

    Args:
        target_name: of a kernel that is registered.
        result_shape_dtypes: a tensor, or (shape, dtype), per result. A list or tuple of them is a tuple result, also
            if there is one.
        has_side_effect: compiled programs call it even if nobody uses the result.
        vmap_method: what torch.vmap does, as in JAX; None: an error.
        input_layouts, output_layouts: per operand or result the order of its dimensions in memory, major to minor;
            None is row-major. Sizes that the handler sees are the tensor's, whatever the layout.
        input_output_aliases: operand to result: the handler is given the same memory for both. The operand itself is
            not changed: the result begins as its copy.
        custom_call_api_version: 4 for typed FFI; 1, 2 or 3 for XLA's older interfaces.
        legacy_backend_config: the opaque bytes of versions 1 to 3.

    Differentiable through torch.autograd.Function only: without it, backward raises NotImplementedError. Works under
    torch.compile with the backends eager and aot_eager, with attributes that are Python constants there.
    """
    raise NotImplementedError
