"""With JAX on one device: tensors as arrays, arrays as tensors, without a copy, and the functions of one in the other.

JAX runs on the device by the PJRT plugin that comes with this package (docs/jax.md); both use one driver and one
allocator. Each side keeps the memory alive as long as it uses it, and works in order: what JAX is given later waits for
the current stream, or that stream for JAX's work, on the device; the host waits for nothing.

Arrays of JAX do not change, and JAX counts on that. A tensor that shares memory with one must not be written while the
array is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import pjrt_mydev
from pjrt_mydev import _sharing
from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import init
from torch_mydev.jax_function import function
from torch_mydev.jax_operator import operator
from torch_mydev.jax_types import narrowed

if TYPE_CHECKING:
    import jax

__all__ = ["from_jax", "function", "operator", "to_jax"]


def to_jax(tensor: torch.Tensor, *, copy: bool | None = None) -> jax.Array:
    """The tensor as an array of JAX on the same device.

    ``copy`` is that of the array API. None copies where the tensor cannot be shared: it is not dense and row-major, has
    a conjugate or negative bit, or has a type of 64 bits while JAX has none. True always copies. False never does: it
    raises ValueError for such a tensor. Raises ValueError, too, for a tensor that is not on the device, TypeError for a
    layout or type that JAX does not have, and RuntimeError for one that requires grad.
    """
    if tensor.device.type != DEVICE_NAME:
        raise ValueError(
            f"to_jax takes tensors on {DEVICE_NAME}, and this one is on {tensor.device}; move it there, or use "
            f"jax.dlpack.from_dlpack"
        )
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(f"to_jax takes dense tensors, and this one is {tensor.layout}, {tensor.dtype}")
    if tensor.requires_grad:
        raise RuntimeError("to_jax takes tensors that need no gradient, since JAX would not know of it; use detach()")
    pjrt_mydev.initialize()
    device = _sharing.devices()[tensor.device.index]
    dense = narrowed(tensor.resolve_conj().resolve_neg().contiguous())
    if copy is False and (dense.data_ptr() != tensor.data_ptr() or dense.dtype != tensor.dtype):
        raise ValueError(
            f"a copy of the tensor is needed, and copy=False: it has {tensor.dtype}, sizes {list(tensor.shape)} and "
            f"strides {list(tensor.stride())}; JAX shares dense, row-major memory, of 64-bit types with jax_enable_x64"
        )
    if copy and dense.data_ptr() == tensor.data_ptr():
        dense = dense.clone()
    try:
        capsule = torch.utils.dlpack.to_dlpack(dense.detach())  # type: ignore[attr-defined]
        array: jax.Array = _sharing.borrow(capsule, device, _C.current_stream_id(device.local_hardware_id))
    except (BufferError, TypeError) as error:
        raise TypeError(f"JAX has no type for {tensor.dtype}: {error}") from error
    return array


def from_jax(array: jax.Array) -> torch.Tensor:
    """The array as a tensor on the same device, which needs no gradient.

    While the tensor lives, JAX donates the memory to no program: one that would write it writes a copy. Raises
    TypeError for what is no array, or of a type that PyTorch does not have. Raises ValueError for an array that is not
    on one device of the platform. Raises RuntimeError for one that was deleted, lies in memory of the host, or whose
    computation failed. If it fails later, the next wait for the current stream raises the error.
    """
    import jax

    if isinstance(array, jax.core.Tracer) or not isinstance(array, jax.Array):
        raise TypeError(f"from_jax takes arrays of JAX that have values, and this is {type(array).__name__}")
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        raise TypeError(f"PyTorch has no type for {array.dtype}; jax.random.key_data gives the numbers of keys")
    on = sorted(array.devices(), key=lambda device: int(device.id))
    if len(on) != 1 or on[0].platform != DEVICE_NAME:
        raise ValueError(
            f"from_jax takes arrays on one device of {DEVICE_NAME}, and this one is on "
            f"{', '.join(map(str, on))}; use its addressable_shards, or jax.device_put"
        )
    init()
    try:
        return _sharing.lend(array, _C.current_stream_id(on[0].local_hardware_id), torch.utils.dlpack.from_dlpack)
    except BufferError as error:
        raise TypeError(f"PyTorch has no type for {array.dtype}: {error}") from error
