"""Kernels of the registry called from JAX: by their records (pjrt_mydev.kernel), and by jax.ffi, of each version."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pjrt.clients import output_of, require
from support.checkout import KERNELS

DRIVERS = ["host", "host:remote,async,guarded"]
START = """
import json
import jax, jax.numpy as jnp, numpy as np
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
kernel, ffi_call, like = pjrt_mydev.kernel, jax.ffi.ffi_call, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
x = jnp.arange(6.0).reshape(2, 3) + 1
a, b = x
total = lambda *results: sum(leaf.sum() for leaf in jax.tree.leaves(results))
results = {}
def answer(function):
    try:
        return jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), function())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""
END = "\nprint(json.dumps(results))"

LOAD = """
for library in LIBRARIES:
    pjrt_mydev.load_custom_calls(library)
"""

RECORDS = """
square, matmul = kernel("test.square"), kernel("test.matmul")
cases = {
    "called": lambda: square(a),
    "jit, strided, alpha": lambda: jax.jit(lambda x, y: kernel("test.axpy")(x.T, y, alpha=2.0))(x, jnp.ones((3, 2))),
    "gradient": lambda: jax.grad(lambda v: total(square(v)))(a),
    "second derivative": lambda: jax.grad(lambda v: total(jax.grad(lambda v: total(square(v)))(v)))(a),
    "gradient of a result": lambda: jax.grad(lambda v: total(kernel("test.exp")(v)))(jnp.zeros(2)),
    "two gradients": lambda: jax.grad(lambda v, w: total(matmul(v, w)), argnums=(0, 1))(x, x.T),
    "expand_dims": lambda: jax.vmap(square)(x),
    "broadcast_all": lambda: jax.vmap(kernel("test.axpy"), in_axes=(0, None))(x, a),
    "sequential": lambda: jax.vmap(matmul, in_axes=(None, 0))(x, jnp.ones((2, 3, 1))),
    "batched gradient": lambda: jax.vmap(jax.grad(lambda v: total(square(v))))(x),
    "in place": lambda: (kernel("test.increment")(a, step=2), a),
    "in place, and fresh": lambda: kernel("test.accumulate")(a, b),
    "gradient, in place": lambda: jax.grad(lambda v, w: total(kernel("test.accumulate")(v, w)), argnums=(0, 1))(a, b),
    "swap": lambda: (kernel("test.swap")(a, b), a),
    "absent": lambda: [kernel("test.weigh")(a), kernel("test.weigh")(a, None), kernel("test.weigh")(a, b)],
    "variadic": lambda: kernel("test.total")([a, b, a]),
    "variadic gradient": lambda: jax.grad(lambda v, p: total(kernel("test.weigh_squares")(v, p)), argnums=(0, 1))(
        a, [a, b]),
    "variadic result": lambda: kernel("test.double_each")([a, b[:1]]),
    "two results": lambda: kernel("test.minimum")(x),
    "size of an attribute": lambda: kernel("test.fill")(size=3),
    "empty": lambda: square(jnp.zeros((0, 2))),
    "typed ffi": lambda: kernel("typed.scale")(a, scale=3),
    "attributes": lambda: bytes(np.asarray(kernel("test.attributes")(flag=True, reals=[2.0, 2.0], z=1 + 2j,
        dims=[3, 3, 3], name="\\u00e9", narrow=7))).rstrip(b"\\0").decode(),
    "no gradient": lambda: jax.grad(lambda v: total(kernel("test.product")(v, v)))(a),
    "not for that operand": lambda: jax.grad(lambda v: total(kernel("test.half_gradient")(a, v)))(b),
    "gradient is not there": lambda: jax.grad(lambda v: total(kernel("test.lost_gradient")(v)))(a),
    "no batching": lambda: jax.vmap(kernel("test.exp"))(x),
    "type": lambda: square(jnp.arange(3)),
    "type of no kernel": lambda: square(jnp.zeros(3, jnp.float8_e3m4)),
    "rank": lambda: matmul(a, x),
    "sizes": lambda: matmul(x, x),
    "needed attribute": lambda: kernel("test.fill")(),
    "unknown attribute": lambda: kernel("test.fill")(size=3, sise=3),
    "too many": lambda: square(a, b),
    "needed operand": lambda: square(),
    "nobody": lambda: kernel("test.nobody"),
    "built-in": lambda: kernel("mydev.add"),
    "its code": lambda: kernel("test.fail")(a, code=8, message="no room"),
}
results = {name: answer(case) for name, case in cases.items()}
results["repr"] = repr(square)
results["info"] = pjrt_mydev.kernel_info("test.matmul")["gradient"]
"""

EXPECTED = {
    "called": [1, 4, 9],
    "jit, strided, alpha": [[3, 9], [5, 11], [7, 13]],
    "gradient": [2, 4, 6],
    "second derivative": [2, 2, 2],
    "gradient of a result": [1, 1],
    "two gradients": [[[5, 7, 9], [5, 7, 9]], [[5, 5], [7, 7], [9, 9]]],
    "expand_dims": [[1, 4, 9], [16, 25, 36]],
    "broadcast_all": [[2, 4, 6], [5, 7, 9]],
    "sequential": [[[6], [15]], [[6], [15]]],
    "batched gradient": [[2, 4, 6], [8, 10, 12]],
    "in place": [[3, 4, 5], [1, 2, 3]],
    "in place, and fresh": [[5, 7, 9], [1, 2, 3]],
    "gradient, in place": [[2, 2, 2], [1, 1, 1]],
    "swap": [[[4, 5, 6], [1, 2, 3]], [1, 2, 3]],
    "absent": [[1, 2, 3], [1, 2, 3], [4, 10, 18]],
    "variadic": [6, 9, 12],
    "variadic gradient": [[17, 29, 45], [[2, 8, 18], [8, 20, 36]]],
    "variadic result": [[2, 4, 6], [8]],
    "two results": [[1, 4], [0, 0]],
    "size of an attribute": [7, 7, 7],
    "empty": [],
    "typed ffi": [3, 6, 9],
    "attributes": "flag=1;narrow=7;scale=0.5;name=\u00e9;dims=3,3,3,;reals=2,2,;z=1+2i;",
    "repr": "<kernel test_square(Tensor x) -> Tensor>",
    "info": {"kernel": "test.matmul_vjp", "saved": [0, 1], "wrt": [0, 1]},
}
REFUSED = {
    "no gradient": "ValueError: The FFI call to `test.product` cannot be differentiated",
    "not for that operand": "NotImplementedError: kernel 'test.half_gradient' has no gradient for operand 'y'",
    "gradient is not there": "ValueError: there is no kernel 'test.nowhere'; load the library that has it",
    "no batching": "NotImplementedError: vmap is only supported for the ffi_call primitive",
    "type": "ValueError: test.square: operand 'x' is s32, which it does not take",
    "type of no kernel": "ValueError: kernel 'test.square': no kernel takes operands of float8_e3m4",
    "rank": "ValueError: test.matmul: operand 'a' has rank 1, which it does not take",
    "sizes": "ValueError: test.matmul: operand 'b' has size 2 in dimension 0, where 'k' is 3",
    "needed attribute": "TypeError: test_fill(*, int size) -> Tensor: attribute size is needed",
    "unknown attribute": "TypeError: test_fill(*, int size) -> Tensor: there is no attribute sise",
    "too many": "TypeError: test_square(Tensor x) -> Tensor: 2 operands were given",
    "needed operand": "ValueError: test.square: operand 'x' is absent; it is not optional",
    "nobody": "ValueError: there is no kernel 'test.nobody'; load the library that has it",
    "built-in": "NotImplementedError: kernel 'mydev.add' has no signature",
    "its code": "JaxRuntimeError: RESOURCE_EXHAUSTED: ",
}

CONTRACTS = """
gate, outer, pool = (kernel(f"contract.{name}") for name in ("gate", "outer", "pool"))
composed = lambda x, g, scale=2.0: x * jnp.tanh(g * scale)
other = jnp.array([0.5, -1.0, 0.0])
def pair(change):
    return lambda: [change(gate), change(composed)]
cases = {
    "broadcast": pair(lambda f: f(x, other)),
    "attribute": pair(lambda f: jax.jit(lambda x: f(x, other, scale=0.5))(x)),
    "reverse": pair(lambda f: jax.grad(lambda x, g: total(f(x, g)), argnums=(0, 1))(x, other)),
    "forward": pair(lambda f: jax.jvp(f, (x, other), (x, other))[1]),
    "second": pair(lambda f: jax.hessian(lambda g: total(f(x, g)))(other)),
    "batched": pair(lambda f: jax.vmap(f, in_axes=(0, None))(x, other)),
    "batched gradient": pair(lambda f: jax.vmap(jax.grad(lambda v: total(f(v, other))))(x)),
    "half": pair(lambda f: jax.grad(lambda v: total(f(v, v).astype(jnp.float32)))(other.astype(jnp.float16))),
    "computed size": lambda: [pool(a, width=2), a[1:2]],
    "outer": lambda: [outer(a, other), jnp.outer(a, other)],
    "sizes": lambda: gate(x, jnp.ones(2)),
    "attribute out of bounds": lambda: pool(a, width=0),
}
results = {name: answer(case) for name, case in cases.items()}
"""
CONTRACTS_REFUSED = {
    "sizes": "ValueError: Incompatible shapes for broadcasting",
    "attribute out of bounds": "ValueError: contract.pool: attribute 'width' is 0",
}

BY_NAME = """
cases = {
    "frame": lambda: ffi_call("test.axpy", like(a))(a, b, alpha=np.float64(2)),
    "in place": lambda: (ffi_call("test.increment", like(a))(a, step=np.float64(2)), a),
    "absent": lambda: ffi_call("test.weigh", like(a))(a, **{"mydev.absent": np.array([1])}),
    "built-in": lambda: ffi_call("mydev.add", like(a))(a, b, alpha=np.float64(2)),
    "typed ffi": lambda: ffi_call("typed.scale", like(a))(a, scale=np.float32(2)),
    "unknown attribute": lambda: ffi_call("test.axpy", like(a))(a, b, alfa=np.float64(2)),
    "unknown attribute of a built-in": lambda: ffi_call("mydev.add", like(a))(a, b, alfa=np.float64(2)),
    "result": lambda: ffi_call("test.square", jax.ShapeDtypeStruct((2,), jnp.float32))(a),
}
results = {name: answer(case) for name, case in cases.items()}
"""

VERSIONS_SOURCE = """
#include <stddef.h>
#include <stdint.h>
void original(float* out, const void** in) {
  const float* x = in[0];
  for (int i = 0; i < 3; ++i) out[i] = x[i] + 1;
}
void original_tuple(void** out, const void** in) {
  const float* x = in[0];
  for (int i = 0; i < 3; ++i) ((float*)out[0])[i] = x[i] + 1, ((float*)out[1])[i] = x[i] * 2;
}
void status(float* out, const void** in, void* state) {
  const float* x = in[0];
  for (int i = 0; i < 3; ++i) out[i] = x[i] * 3;
}
void unified(float* out, const void** in, const char* opaque, size_t size, void* state) {
  const float* x = in[0];
  for (int i = 0; i < 3; ++i) out[i] = x[i] + (float)size + opaque[0];
}
"""
VERSIONS = """
import ctypes
library = ctypes.CDLL(LIBRARY)
results = {}
for device in (jax.devices("mydev")[0], jax.devices("cpu")[0]):
    for name in ("original", "original_tuple", "status", "unified"):
        jax.ffi.register_ffi_target(f"tests.{name}", jax.ffi.pycapsule(getattr(library, name)), api_version=0,
                                    platform=device.platform)
    v = jax.device_put(np.arange(3, dtype=np.float32), device)
    call = lambda name, shapes, version, **options: jax.jit(
        lambda v: ffi_call(f"tests.{name}", shapes, custom_call_api_version=version, **options)(v))(v)
    results[device.platform] = {
        "1": answer(lambda: call("original", like(v), 1)),
        "1, tuple": answer(lambda: call("original_tuple", (like(v), like(v)), 1)),
        "2": answer(lambda: call("status", like(v), 2)),
        "3": answer(lambda: call("unified", like(v), 3, legacy_backend_config="ab")),
    }
"""


@pytest.fixture(autouse=True)
def _jax() -> None:
    require("jax", "jax==0.10.2")


@pytest.fixture
def libraries() -> list[str]:
    paths = [KERNELS / f"{name}_kernels.so" for name in ("operator", "xla", "contract")]
    for path in paths:
        if not path.exists():
            pytest.skip(f"{path} is not built: configure with -DMYDEV_BUILD_TESTS=ON")
    return list(map(str, paths))


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_record_makes_a_function_of_jax(driver: str, libraries: list[str]) -> None:
    results = json.loads(output_of(f"{START}LIBRARIES = {libraries}{LOAD}{RECORDS}{END}", driver).splitlines()[-1])
    assert {name: results[name] for name in EXPECTED} == EXPECTED
    assert {name: str(results[name])[: len(text)] for name, text in REFUSED.items()} == REFUSED
    assert "no room" in results["its code"]
    assert len(results) == len(EXPECTED) + len(REFUSED)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_contract_makes_a_function_with_derivatives(driver: str, libraries: list[str]) -> None:
    results = json.loads(output_of(f"{START}LIBRARIES = {libraries}{LOAD}{CONTRACTS}{END}", driver).splitlines()[-1])
    for name, text in CONTRACTS_REFUSED.items():
        assert results.pop(name)[: len(text)] == text
    for name, pair in results.items():
        assert not isinstance(pair, str), pair
        np.testing.assert_allclose(*(np.array(leaves(value)) for value in pair), rtol=2e-3, atol=1e-6, err_msg=name)


def leaves(value: Any) -> list[float]:
    """The numbers in nested lists."""
    return [leaf for entry in value for leaf in leaves(entry)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("driver", DRIVERS)
def test_kernels_of_each_kind_are_called_by_name(driver: str, libraries: list[str]) -> None:
    results = json.loads(output_of(f"{START}LIBRARIES = {libraries}{LOAD}{BY_NAME}{END}", driver).splitlines()[-1])
    assert results["frame"] == [6, 9, 12]
    assert results["in place"] == [[3, 4, 5], [1, 2, 3]]
    assert results["absent"] == [1, 2, 3]
    assert results["built-in"] == [9, 12, 15]
    assert results["typed ffi"] == [2, 4, 6]
    assert "kernel 'test.axpy' has no attribute 'alfa'" in results["unknown attribute"]
    assert "kernel 'mydev.add' has no attribute 'alfa'" in results["unknown attribute of a built-in"]
    assert "result 0 has not the dtype and sizes" in results["result"]


def test_functions_of_all_versions_are_registered(tmp_path: Path) -> None:
    """Tests the versions before the typed one; JAX's CPU is the judge."""
    source, library = tmp_path / "versions.c", tmp_path / "versions.so"
    source.write_text(VERSIONS_SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    results = json.loads(output_of(f"{START}LIBRARY = {str(library)!r}\n{VERSIONS}{END}").splitlines()[-1])
    assert results["mydev"] == {
        "1": [1, 2, 3],
        "1, tuple": [[1, 2, 3], [0, 2, 4]],
        "2": [0, 3, 6],
        "3": [99, 100, 101],
    }
    assert results["mydev"] == results["cpu"]


def test_the_example_library_gives_both_frameworks_the_same() -> None:
    require("torch", "torch")
    program = "examples/custom_calls/same_from_jax.py"
    code = f"""
import runpy, sys
sys.path.insert(0, "examples/custom_calls")
sys.argv = [{program!r}]
sys.exit(runpy.run_path({program!r}, run_name="program")["main"]())
"""
    output = output_of(code)
    for kernel, gradients in {"softcap": 1, "rms_norm_rope": 2, "csr_matmul": 2}.items():
        assert f"example.{kernel}: result and {gradients} gradients are the same" in output
    assert "batched scores: (2, 3, 3)" in output
