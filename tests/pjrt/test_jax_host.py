"""Functions that JAX programs call on the host: LAPACK, functions of jax.ffi, Python callbacks."""

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

READING = """
import threading
y, scalar, seen = jnp.arange(3.0), jnp.float32(7), {}
committed = jax.device_put(np.arange(4.0, dtype=np.float32), device)
pinned = jax.device_put(y, jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host"))

def read(v):
    print("printed", v, y)
    other = []
    thread = threading.Thread(target=lambda: other.append(np.asarray(committed).tolist()))
    thread.start()
    thread.join()
    host = jax.device_put(committed, jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host"))
    return [np.asarray(y).tolist(), float(scalar), bool((y == np.arange(3)).all()), (y + 1).tolist(),
            np.asarray(jax.device_put(committed, cpu)).tolist(), other[0], np.asarray(pinned).tolist(),
            np.asarray(host).tolist()]

def noted(name):
    def function(v):
        seen[name] = read(v)
        return np.float32(v)
    return function

shape = jax.ShapeDtypeStruct((), jnp.float32)
programs = {
    "debug": lambda x: (jax.debug.callback(noted("debug"), x), x + 1)[1],
    "pure": lambda x: jax.pure_callback(noted("pure"), shape, x) + 1,
    "io": lambda x: io_callback(noted("io"), shape, x) + 1,
    "ordered": lambda x: io_callback(noted("ordered"), shape, x, ordered=True) + 1,
}
for name, program in programs.items():
    results[name] = float(jax.jit(program)(1.0))
jax.effects_barrier()
results["seen"] = seen

# The client asks for what a callback reads, after its program.
total = jax.jit(lambda a: (a @ a).sum())(jnp.ones((1000, 1000)))
jax.jit(lambda x: (jax.debug.callback(lambda v: seen.update(total=float(total)), x), x + 1)[1])(1.0)
results["total"] = float(total)
jax.effects_barrier()

refused = {}
def attempt(name, function):
    def run(v):
        try:
            refused[name] = str(jax.block_until_ready(function()))
        except Exception as error:
            refused[name] = str(error)
    return run
attempts = {
    "program": lambda: committed + committed,
    "jit": lambda: jax.jit(lambda a: a * 2)(committed),
    "upload": lambda: jax.device_put(np.ones(3, np.float32), device),
    "move": lambda: jax.device_put(pinned, jax.sharding.SingleDeviceSharding(device, memory_kind="device")),
}
for name, function in attempts.items():
    jax.jit(lambda x: (jax.debug.callback(attempt(name, function), x), x + 1)[1])(1.0).block_until_ready()
jax.effects_barrier()
results["refused"] = refused
results["after"] = (committed + 1).tolist()
print(json.dumps(results))
"""

READING_ON_SEVERAL = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices("mydev")
mesh = Mesh(np.array(devices), ("d",))
x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("d")))
seen = []
def read(v):
    seen.append(np.asarray(x).tolist())

def part(v):
    jax.debug.callback(read, v)
    return jax.lax.psum(v, "d")
summed = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P("d"), out_specs=P()))
results["shard_map"] = np.asarray(summed(x)).tolist()
results["pmap"] = np.asarray(jax.pmap(part, axis_name="d", devices=devices)(np.ones((4, 2), np.float32))).tolist()
jax.effects_barrier()
results["seen"] = seen

# Another device, which is idle, computes for a callback.
def elsewhere(v):
    there = jax.device_put(np.float32(v), devices[1])
    return np.asarray(there + there + there)
on_first = jax.device_put(np.float32(1), devices[0])
results["elsewhere"] = float(jax.jit(
    lambda v: jax.pure_callback(elsewhere, jax.ShapeDtypeStruct((), jnp.float32), v))(on_first))
print(json.dumps(results))
"""


@pytest.mark.slow
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


@pytest.mark.parametrize("driver", DRIVERS)
def test_callbacks_read_arrays_and_are_refused_what_would_wait_for_them(driver: str) -> None:
    require("jax", "jax==0.10.2")
    output = output_of(START + READING, driver)
    results = json.loads(output.splitlines()[-1])
    assert output.count("printed 1.0 [0. 1. 2.]") == 4
    assert results["total"] == results["seen"]["total"] == 1e9
    three, four = [0, 1, 2], [0, 1, 2, 3]
    expected = [three, 7, True, [1, 2, 3], four, four, three, four]
    for name in ("debug", "pure", "io", "ordered"):
        assert results[name] == 2
        assert results["seen"][name] == expected, name
    for name, what in {
        "program": "an execution of 'jit_add'",
        "jit": "an execution of 'jit__lambda'",
        "upload": "a copy of f32[3]",
        "move": "a copy of f32[3] in pinned_host",
    }.items():
        assert f"a callback asks mydev:0 for {what}" in results["refused"][name], name
    assert results["after"] == [1, 2, 3, 4]


@pytest.mark.parametrize("driver", ["host:devices=4", "host:remote,async,devices=4"])
def test_callbacks_of_several_devices_read_arrays(driver: str) -> None:
    require("jax", "jax==0.10.2")
    results = json.loads(output_of(START + READING_ON_SEVERAL, driver).splitlines()[-1])
    assert results["shard_map"] == [12, 16]
    assert results["pmap"] == [[4, 4]] * 4
    assert results["seen"] == [list(range(8))] * 8
    assert results["elsewhere"] == 3


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
