"""The types of elements that PyTorch and JAX both have."""

from __future__ import annotations

from typing import Any

import torch

# The types that JAX uses in place of types with 64 bits, unless jax_enable_x64 is set.
NARROW = {
    torch.int64: torch.int32,
    torch.uint64: torch.uint32,
    torch.float64: torch.float32,
    torch.complex128: torch.complex64,
}


def narrowed(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, in a type that JAX has at present."""
    import jax

    return tensor if jax.config.jax_enable_x64 else tensor.to(NARROW.get(tensor.dtype, tensor.dtype))


def jax_dtype(dtype: torch.dtype) -> Any:
    """Raises TypeError for a type that JAX does not have."""
    import jax.numpy as jnp

    found = getattr(jnp, str(dtype).removeprefix("torch.").replace("bool", "bool_"), None)
    if found is None:
        raise TypeError(f"JAX has no type for {dtype}; convert the tensor")
    return found


def torch_dtype(dtype: Any, what: str) -> torch.dtype:
    """Raises TypeError for a type that PyTorch does not have; ``what`` has it."""
    found = getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"PyTorch has no type for JAX's {dtype}, which {what} has; convert it in JAX")
    return found


def has_derivatives(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex
