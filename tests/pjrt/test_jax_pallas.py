"""Pallas kernels on the device, by JAX's interpreter: without ``interpret=True``, compared with NumPy and JAX's CPU."""

from __future__ import annotations

import pytest

from pjrt.clients import output_of, require

PRELUDE = """
import functools
import jax, jax.numpy as jnp, numpy as np, pjrt_mydev
from jax.experimental import pallas as pl
pjrt_mydev.initialize()
jax.config.update("jax_platforms", pjrt_mydev.device_name() + ",cpu")
rng = np.random.default_rng(0)
"""

#: A program each, which fails if a value is wrong.
PROGRAMS = {
    "a sum": """
def kernel(x, y, out):
    out[...] = x[...] + y[...]
x, y = rng.random((2, 8, 16), np.float32)
call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
np.testing.assert_array_equal(jax.jit(call)(x, y), x + y)
np.testing.assert_array_equal(call(x, y), x + y)
""",
    "positions of a grid": """
def kernel(out):
    out[pl.program_id(0)] = pl.program_id(0) * 3
call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((7,), jnp.int32), grid=(7,))
np.testing.assert_array_equal(call(), np.arange(7) * 3)
""",
    "a product in blocks": """
def kernel(x, y, out):
    @pl.when(pl.program_id(2) == 0)
    def _():
        out[...] = jnp.zeros_like(out)
    out[...] += x[...] @ y[...]
x, y = rng.random((64, 96), np.float32), rng.random((96, 32), np.float32)
call = pl.pallas_call(
    kernel, out_shape=jax.ShapeDtypeStruct((64, 32), jnp.float32), grid=(4, 2, 3),
    in_specs=[pl.BlockSpec((16, 32), lambda i, j, k: (i, k)), pl.BlockSpec((32, 16), lambda i, j, k: (k, j))],
    out_specs=pl.BlockSpec((16, 16), lambda i, j, k: (i, j)))
np.testing.assert_allclose(jax.jit(call)(x, y), x @ y, rtol=1e-5)
""",
    "a softmax of rows, batched": """
def kernel(x, out):
    shifted = jnp.exp(x[...] - x[...].max(-1, keepdims=True))
    out[...] = shifted / shifted.sum(-1, keepdims=True)
def softmax(x):
    spec = pl.BlockSpec((4, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 4,),
                          in_specs=[spec], out_specs=spec)(x)
x = rng.random((3, 8, 10), np.float32)
np.testing.assert_allclose(jax.jit(jax.vmap(softmax))(x), jax.nn.softmax(x), rtol=1e-6)
""",
    "a loop and a part that is chosen": """
def kernel(n, x, out):
    def body(i, total):
        return total + x[pl.ds(i, 2)].sum()
    out[0] = jax.lax.fori_loop(0, n[0], body, 0.0)
x = rng.random(12, np.float32)
call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1,), jnp.float32))
np.testing.assert_allclose(call(jnp.array([5]), x)[0], sum(x[i : i + 2].sum() for i in range(5)), rtol=1e-6)
""",
    "an argument that is overwritten": """
def kernel(x, out):
    out[...] = x[...] * 2
x = rng.random(16, np.float32)
call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})
np.testing.assert_array_equal(jax.jit(call)(x), x * 2)
""",
}


@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_kernels_give_what_they_say(program: str, driver: str) -> None:
    require("jax", "jax==0.10.2")
    assert output_of(PRELUDE + program + "print('right')", driver).splitlines()[-1] == "right"
