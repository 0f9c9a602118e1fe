"""Functions that JAX exports with sizes that are not known, called with arrays of several sizes."""

from __future__ import annotations

import pytest

from pjrt.clients import output_of, require, run_client

START = """
import jax, jax.numpy as jnp, numpy as np
from jax import export
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
jax.config.update("jax_default_matmul_precision", "highest")
a, b = export.symbolic_shape("a, b", constraints=["a >= 2"])

@jax.jit
def function(x, y):
    ones = jnp.ones((x.shape[0], 2))
    return {
        "concatenate": jnp.concatenate([x @ y, ones], axis=1)[1:] * x.shape[0],
        "pad": jnp.pad(x, ((0, 1), (2, 0))).reshape(-1),
        "slice": x[1::2, : x.shape[1] - 1],
        "gather": x[jnp.argmax(x[:, 0])],
        "scatter": x.at[jnp.arange(x.shape[0]), 0].set(7.0),
        "sort": jnp.sort(x, axis=0),
        "loop": jax.lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], jnp.zeros(x.shape[1])),
    }

arguments = (jax.ShapeDtypeStruct((a, b), np.float32), jax.ShapeDtypeStruct((b, 3), np.float32))
exported = export.export(function, platforms=["mydev", "cpu"])(*arguments)
def called(where, *sizes):
    random = np.random.RandomState(0)
    x, y = random.randn(*sizes).astype(np.float32), random.randn(sizes[1], 3).astype(np.float32)
    return jax.jit(exported.call)(*jax.device_put((x, y), where))
device, cpu = jax.devices("mydev")[0], jax.devices("cpu")[0]
"""


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_sizes_are_those_of_the_arrays(driver: str) -> None:
    require("jax", "jax==0.10.2")
    code = """
for sizes in ((2, 2), (5, 7), (8, 3)):
    results, expected = called(device, *sizes), called(cpu, *sizes)
    for name, result in results.items():
        assert result.devices() == {device}, name
        assert result.shape == expected[name].shape, (name, sizes)
        np.testing.assert_allclose(result, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
print("same")
"""
    assert output_of(START + code, driver).splitlines()[-1] == "same"


def test_a_constraint_of_sizes_holds() -> None:
    require("jax", "jax==0.10.2")
    result = run_client(START + "called(device, 1, 4)")
    assert result.returncode != 0
    assert "Input shapes do not match the symbolic shape constraint" in result.stderr
