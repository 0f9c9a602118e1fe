"""A driver whose record for products names f64, s8, s32 and 8-bit floats is given them, by each client."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
WIDE = str(DRIVERS / "wide_driver.so")

START = f"""
import ctypes

driver = ctypes.CDLL({WIDE!r})
driver.mydev_test_products.restype = ctypes.c_int64
F64, S8, F8 = 12, 2, 20  # as in custom_call.h

def products(dtype, function):
    before = driver.mydev_test_products(dtype)
    result = function()
    return driver.mydev_test_products(dtype) - before, result
"""

TORCH = """
import torch, torch_mydev

torch.manual_seed(0)
wide = torch.randn(33, 33, dtype=torch.float64)
narrow = torch.randint(-128, 128, (40, 64), dtype=torch.int8)
eight = torch.randn(32, 48).to(torch.float8_e4m3fn)
scales = torch.rand(32, 1) + 0.5, torch.rand(1, 32) + 0.5
one = torch.tensor(0.5)
bias = torch.randn(32)

cases = {
    "mm": (F64, lambda m: m(wide) @ m(wide)),
    "mv": (F64, lambda m: m(wide) @ m(wide)[0]),
    "dot": (F64, lambda m: torch.dot(m(wide)[0], m(wide)[1])),
    "_int_mm": (S8, lambda m: torch._int_mm(m(narrow), m(narrow).t().contiguous())),
    "compiled": (F64, lambda m: torch.compile(lambda a, b: (a @ b).relu())(m(wide), m(wide))),
    "scaled": (F8, lambda m: torch._scaled_mm(m(eight), m(eight).t().contiguous(), m(one), m(one),
                                              bias=m(bias), out_dtype=torch.float32)),
    "scaled by rows": (F8, lambda m: torch._scaled_mm(m(eight), m(eight).t().contiguous(), *map(m, scales),
                                                      out_dtype=torch.bfloat16)),
}

def of_cpu(name, case):
    if not name.startswith("scaled"):
        return case(lambda t: t)
    product = eight.float() @ eight.float().t()
    return product * 0.25 + bias if name == "scaled" else (product * scales[0] * scales[1]).bfloat16()

for name, (dtype, case) in cases.items():
    count, result = products(dtype, lambda: case(lambda t: t.to("mydev")).cpu())
    torch.testing.assert_close(result, of_cpu(name, case), msg=lambda text: f"{name}: {text}")
    assert count == 1, (name, count)

# The CPU computes products that the record declines, and wrong calls are refused as there.
there = wide.to("mydev")
with torch_mydev.fallback_census() as census:
    torch.testing.assert_close(torch.addmm(there, there, there).cpu(), torch.addmm(wide, wide, wide))
assert [row.op for row in census.rows] == ["aten::addmm"], census
assert "two matrices only" in census.rows[0].declined, census
torch.testing.assert_close((there.to(torch.complex128) @ there.mH.to(torch.complex128)).cpu().real, wide @ wide.mH)
try:
    torch._int_mm(narrow.to("mydev"), narrow.to("mydev"))
except RuntimeError as error:
    assert "size" in str(error), error
else:
    raise AssertionError("sizes that do not fit were taken")
"""

CAPTURED = """
import torch, torch_mydev
from support.graphs import capture

torch.manual_seed(0)
values = torch.randn(8, 8, dtype=torch.float64)
there = values.to("mydev")
count, (graph, result) = products(F64, lambda: capture(lambda: there @ there + there))
count, _ = products(F64, graph.replay)
assert count == 1, count
torch.testing.assert_close(result.cpu(), values @ values + values)
"""

JAX = """
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
wide = rng.normal(size=(24, 24))
narrow = rng.integers(-128, 128, (24, 24)).astype(np.int8)
eight = jnp.asarray(rng.normal(size=(24, 24)), jnp.float8_e4m3fn)

def dot(dtype):
    return jax.jit(lambda a: jax.lax.dot(a, a, preferred_element_type=dtype))

for dtype, values, into, kind in [
    (F64, wide, wide @ wide, jnp.float64),
    (S8, narrow, narrow.astype(np.int32) @ narrow.astype(np.int32), jnp.int32),
    (F8, eight, np.asarray(eight, np.float32) @ np.asarray(eight, np.float32), jnp.float32),
]:
    count, result = products(dtype, lambda: np.asarray(dot(kind)(values)))
    np.testing.assert_allclose(result, into, rtol=1e-5, atol=1e-5)
    assert count == 1, (dtype, count)
# A dtype that the driver does not name, and one that its plan declines, are multiplied by the host's kernel on copies.
complex_values = wide + 1j * wide.T
np.testing.assert_allclose(np.asarray(jnp.dot(complex_values, complex_values)), complex_values @ complex_values)
integers = narrow.astype(np.int32)
assert (np.asarray(jnp.dot(integers, integers)) == integers @ integers).all()
"""


@pytest.mark.parametrize("program", [TORCH, CAPTURED, JAX], ids=["torch", "captured", "jax"])
def test_wide_products_reach_the_driver(run_python: Run, program: str) -> None:
    result = run_python(
        START + program, MYDEV_DRIVER=WIDE, PYTHONPATH="tests", JAX_PLATFORMS="mydev" if program is JAX else ""
    )
    assert result.returncode == 0, result.stderr
