"""What JAX programs call on the host: LAPACK, functions of jax.ffi, Python callbacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require, run_client

DRIVERS = ["host", "host:async", "host:remote,async,guarded"]
START = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
device, cpu = jax.devices("mydev")[0], jax.devices("cpu")[0]
results = {}
"""

LINEAR_ALGEBRA = """
generator = np.random.default_rng(0)
square = generator.standard_normal((5, 5)).astype(np.float32)
symmetric = square @ square.T + 3 * np.eye(5, dtype=np.float32)
right = generator.standard_normal((5, 2)).astype(np.float32)
batch = generator.standard_normal((2, 6, 4)).astype(np.float32)
def product(function): return lambda a: (lambda x, y: x @ y)(*function(a))
def from_svd(a):
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return (u * s[..., None, :]) @ v
def from_schur(a):
    t, z = jax.scipy.linalg.schur(a)
    return z @ t @ z.T
cases = {
    "eigh": (lambda a: jnp.linalg.eigh(a)[0], symmetric),
    "eigh-gradient": (jax.grad(lambda a: jnp.sum(jnp.linalg.eigh(a)[0] ** 2)), symmetric),
    "eigvals": (lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), square),
    "svd": (from_svd, batch),
    "singular_values": (lambda a: jnp.linalg.svd(a, compute_uv=False), batch),
    "qr": (product(jnp.linalg.qr), batch),
    "lu": (jax.scipy.linalg.lu, square),
    "inv": (jnp.linalg.inv, square),
    "solve": (lambda a: jnp.linalg.solve(a, jnp.asarray(right)), square),
    "solve-gradient": (jax.grad(lambda a: jnp.sum(jnp.linalg.solve(a, jnp.asarray(right)) ** 2)), square),
    "slogdet": (jnp.linalg.slogdet, square),
    "cholesky": (jnp.linalg.cholesky, symmetric),
    "pinv": (jnp.linalg.pinv, batch),
    "lstsq": (lambda a: jnp.linalg.lstsq(a, jnp.asarray(right))[0], square),
    "matrix_rank": (jnp.linalg.matrix_rank, square),
    "schur": (from_schur, square),
    "hessenberg": (jax.scipy.linalg.hessenberg, square),
    "expm": (jax.scipy.linalg.expm, square / 4),
}
for name, (function, argument) in cases.items():
    try:
        actual, expected = (jax.tree.leaves(jax.jit(function)(jax.device_put(argument, d))) for d in (device, cpu))
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-4, atol=2e-4)
        results[name] = ""
    except Exception as error:
        results[name] = str(error)
print(json.dumps(results))
"""

CALLBACKS = """
def doubled_sine(x):
    return jax.pure_callback(
        lambda a: np.sin(a) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="broadcast_all")

seen = []
@jax.jit
def ordered(x):
    io_callback(lambda a: seen.append(float(a)), None, x.sum(), ordered=True)
    count = io_callback(lambda a: np.float32(len(seen)), jax.ShapeDtypeStruct((), jnp.float32), x.sum(), ordered=True)
    jax.debug.callback(lambda a: seen.append(float(a)), count)
    jax.debug.print("count {count}", count=count)
    return count + 1

x = jnp.arange(3.0)
results["pure"] = np.asarray(jax.jit(doubled_sine)(x)).tolist()
results["vmap"] = np.asarray(jax.vmap(doubled_sine)(jnp.ones((2, 3)))).shape
results["ordered"] = float(ordered(x))
jax.effects_barrier()
results["seen"] = seen
results["loop"] = float(jax.lax.fori_loop(0, 3, lambda i, c: c + jax.pure_callback(
    lambda a: np.float32(a * 2), jax.ShapeDtypeStruct((), jnp.float32), i), 0.0))
results["empty"] = np.asarray(jax.jit(doubled_sine)(jnp.zeros((0, 2)))).shape

def fails(a): raise ValueError("no such thing")
try:
    jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), x))(1.0).block_until_ready()
except Exception as error:
    results["error"] = str(error)
try:
    first = lambda a: a[:1]
    jax.jit(lambda x: jax.pure_callback(first, jax.ShapeDtypeStruct((3,), jnp.float32), x))(x).block_until_ready()
except Exception as error:
    results["shape"] = str(error)
print(json.dumps(results))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_linear_algebra_is_that_of_the_cpu(driver: str) -> None:
    require("jax", "jax==0.10.2")
    results = json.loads(output_of(START + LINEAR_ALGEBRA, driver).splitlines()[-1])
    assert {name: problem for name, problem in results.items() if problem} == {}
    assert len(results) == 18


@pytest.mark.parametrize("driver", DRIVERS)
def test_programs_call_python(driver: str) -> None:
    require("jax", "jax==0.10.2")
    output = output_of(START + CALLBACKS, driver)
    results = json.loads(output.splitlines()[-1])
    assert results["pure"] == pytest.approx([0, 1.6829420, 1.8185949])
    assert results["vmap"] == [2, 3]
    assert results["ordered"] == 2
    assert results["seen"] == [3.0, 1.0]
    assert "count 1.0" in output
    assert results["loop"] == 6
    assert results["empty"] == [0, 2]
    assert "ValueError: no such thing" in results["error"]
    assert "result 0 of the callback is float32[1], and float32[3] was expected" in results["shape"]


def test_functions_of_jax_ffi_are_called(tmp_path: Path) -> None:
    """Typed functions, built with XLA's own headers, with attributes; and what is wrong with a name."""
    require("jax", "jax==0.10.2")
    source = tmp_path / "scale.cpp"
    source.write_text("""
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error scale(ffi::Buffer<ffi::F32> x, float factor, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * factor;
  return factor == 0 ? ffi::Error::InvalidArgument("the factor is 0") : ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    scale_handler, scale,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Attr<float>("factor").Ret<ffi::Buffer<ffi::F32>>());
""")
    code = f"""
import ctypes, subprocess
subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-I", jax.ffi.include_dir(), {str(source)!r}, "-o",
                {str(tmp_path / "scale.so")!r}], check=True)
library = ctypes.CDLL({str(tmp_path / "scale.so")!r})
jax.ffi.register_ffi_target("tests.scale", jax.ffi.pycapsule(library.scale_handler), platform="mydev")
def scale(x, factor):
    return jax.ffi.ffi_call("tests.scale", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, factor=np.float32(factor))
x = jnp.arange(6.0).reshape(2, 3)
results["scaled"] = np.asarray(jax.jit(lambda x: scale(x.T, 3) + 1)(x)).tolist()
try:
    jax.jit(lambda x: scale(x, 0))(x).block_until_ready()
except Exception as error:
    results["error"] = str(error)
print(json.dumps(results))
"""
    results = json.loads(output_of(START + code).splitlines()[-1])
    assert results["scaled"] == [[1, 10], [4, 13], [7, 16]]
    assert "the factor is 0" in results["error"]

    unknown = 'jax.jit(lambda x: jax.ffi.ffi_call("tests.nobody", jax.ShapeDtypeStruct((), np.float32))(x))(1.0)'
    result = run_client(START + unknown)
    assert result.returncode != 0
    assert "there is no kernel 'tests.nobody' to call" in result.stderr
