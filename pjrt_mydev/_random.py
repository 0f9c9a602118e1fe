"""Random numbers: JAX's hash of a key and counters, as a call of one kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p
from jax.interpreters import mlir


def use_kernel_for_threefry(platform: str) -> None:
    """Lowers Threefry 2x32 for the platform to the kernel, where JAX's own rule writes out some hundred operations."""
    mlir.register_lowering(threefry2x32_p, mlir.lower_fun(_threefry2x32, multiple_results=True), platform=platform)


def _threefry2x32(*operands: Any) -> Any:
    shape = jnp.broadcast_shapes(*(operand.shape for operand in operands))
    result = jax.ShapeDtypeStruct(shape, jnp.uint32)
    call = jax.ffi.ffi_call("mydev.threefry2x32", (result, result))
    return call(*(jnp.broadcast_to(operand, shape) for operand in operands))
