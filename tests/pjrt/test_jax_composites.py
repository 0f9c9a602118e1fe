"""Composites of JAX: a kernel of their name if it takes them, else their decomposition. References: JAX on the CPU."""

from __future__ import annotations

import json

import pytest

from pjrt.clients import output_of, require, run_client
from support.checkout import DRIVERS, KERNELS

LIBRARY = KERNELS / "composite_kernels.so"
START = """
import ctypes, functools, json
import jax, jax.numpy as jnp, numpy as np
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
results = {}

# [docs: composite]
@functools.partial(jax.lax.composite, name="acme.gelu_bias")
def gelu_bias(x, bias, scale=1.0):
    return scale * jax.nn.gelu(x + bias, approximate=False)
# [docs: end]

@functools.partial(jax.lax.composite, name="acme.gelu_bias")
def other(x, bias, exact=True):
    return jax.nn.gelu(x + bias, approximate=not exact)

@functools.partial(jax.lax.composite, name="acme.gelu_bias")
def rows(x, bias):
    return (x + bias).sum(-1)

def kernels_of(function, *arguments):
    text = pjrt_mydev.program_text(jax.jit(function).lower(*arguments).compile())
    return text.count("launch acme.gelu_bias")

def same(function, *arguments):
    with jax.default_device(jax.devices("cpu")[0]):
        expected = function(*(np.asarray(argument) for argument in arguments))
    np.testing.assert_allclose(np.asarray(jax.jit(function)(*arguments)), np.asarray(expected), rtol=1e-5, atol=1e-6)
    return True

x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 4, 8), np.float32))
bias, wide = jnp.arange(8.0), jnp.ones((2, 9))
"""
LOAD = f"""
library = pjrt_mydev.load_custom_calls({str(LIBRARY)!r})
calls = ctypes.CDLL({str(LIBRARY)!r}).composite_calls
"""
ASK = """
def exactly(x, bias): return other(x, bias, exact=True)
def scaled(x, bias): return gelu_bias(x, bias, scale=2.5)
def looped(x, bias): return jax.lax.scan(lambda x, _: (gelu_bias(x, bias), None), x, None, length=3)[0]
results["kernels"] = [kernels_of(f, x, bias) for f in (gelu_bias, scaled, looped, exactly, rows)]
results["strided"] = kernels_of(lambda x: gelu_bias(x.T, jnp.ones(3)), x)
results["declined"] = kernels_of(gelu_bias, wide, wide[0])
results["half"] = kernels_of(gelu_bias, x.astype(jnp.float16), bias.astype(jnp.float16))
results["values"] = [same(f, x, bias) for f in (gelu_bias, scaled, looped, exactly, rows)]
results["values"] += [same(lambda x: gelu_bias(x.T, jnp.ones(3)), x), same(gelu_bias, wide, wide[0])]
"""
END = "\nprint(json.dumps(results))"


def answers(code: str, driver: str) -> dict[str, object]:
    require("jax", "jax==0.10.2")
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built: configure with -DMYDEV_BUILD_TESTS=ON")
    found: dict[str, object] = json.loads(output_of(START + code + END, driver).splitlines()[-1])
    return found


@pytest.mark.parametrize("driver", ["host", "host:async,guarded,devices=2"])
def test_a_kernel_of_the_name_takes_what_it_can(driver: str) -> None:
    counted = '\nresults["calls"] = calls()'
    assert answers(LOAD + ASK + counted, driver) == {
        "kernels": [1, 1, 1, 0, 0],  # the last two have another attribute, and another result
        "strided": 1,
        "declined": 0,
        "half": 0,
        "values": [True] * 7,
        "calls": 1 + 1 + 3 + 1,
    }


@pytest.mark.parametrize("driver", ["host", "host:remote"])
def test_without_a_kernel_the_decomposition_runs(driver: str) -> None:
    found = answers(ASK, driver)
    assert (found["kernels"], found["values"]) == ([0] * 5, [True] * 7)


def test_the_log_says_why_a_composite_is_inlined() -> None:
    answers(ASK, "host")
    code = START + LOAD + "jax.jit(gelu_bias).lower(wide, wide[0]).compile()"
    result = run_client(code, "host", MYDEV_LOG="debug")
    assert "composite 'acme.gelu_bias' is inlined" in result.stderr
    assert "takes rows of at most eight elements" in result.stderr


def test_a_kernel_of_the_driver_takes_a_composite() -> None:
    """Its record has no signature: the one attribute is the first."""
    driver = DRIVERS / "discrete_driver.so"
    if not driver.exists():
        pytest.skip(f"{driver} is not built: configure with -DMYDEV_BUILD_TESTS=ON")
    code = """
@functools.partial(jax.lax.composite, name="conformance.scale")
def scale(x, factor=2.0):
    return x * factor
def tripled(x): return scale(x, factor=3.0)
text = pjrt_mydev.program_text(jax.jit(tripled).lower(x.ravel()).compile())
results = {"launch": text.count("launch conformance.scale"), "value": same(tripled, x.ravel())}
"""
    assert answers(code, str(driver)) == {"launch": 1, "value": True}
