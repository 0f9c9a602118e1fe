"""A driver whose records for products and convolutions name f64, s8, s32 and 8-bit floats is given them, by each
client."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from pjrt.clients import require
from support.checkout import DRIVERS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
WIDE = str(DRIVERS / "wide_driver.so")

START = f"""
import ctypes

driver = ctypes.CDLL({WIDE!r})
driver.mydev_test_products.restype = driver.mydev_test_convolutions.restype = ctypes.c_int64
F64, S8, F8 = 12, 2, 20  # as in custom_call.h

def launches(dtype):
    return driver.mydev_test_products(dtype) if dtype is not None else driver.mydev_test_convolutions()

def products(dtype, function):
    before = launches(dtype)
    result = function()
    return launches(dtype) - before, result
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
images = torch.randn(2, 3, 7, 8, dtype=torch.float64)
windows, shift = torch.randn(5, 3, 3, 2, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
conv2d = torch.nn.functional.conv2d

cases = {
    "mm": (F64, lambda m: m(wide) @ m(wide)),
    "mv": (F64, lambda m: m(wide) @ m(wide)[0]),
    "dot": (F64, lambda m: torch.dot(m(wide)[0], m(wide)[1])),
    "_int_mm": (S8, lambda m: torch._int_mm(m(narrow), m(narrow).t().contiguous())),
    "addmm": (F64, lambda m: torch.addmm(m(wide), m(wide), m(wide), beta=0.5, alpha=2)),
    "conv2d": (None, lambda m: conv2d(m(images), m(windows), m(shift), stride=2, padding=1)),
    "conv2d of views": (None, lambda m: conv2d(m(images).mT, m(windows).mT, dilation=2)),
    "conv2d compiled": (None, lambda m: torch.compile(lambda x, w: conv2d(x, w).relu())(m(images), m(windows))),
    "addmm compiled": (F64, lambda m: torch.compile(torch.addmm)(m(wide), m(wide), m(wide))),
    "_int_mm compiled": (S8, lambda m: torch.compile(torch._int_mm)(m(narrow), m(narrow).t().contiguous())),
    "compiled": (F64, lambda m: torch.compile(lambda a, b: (a @ b).relu())(m(wide), m(wide))),
    "scaled": (F8, lambda m: torch._scaled_mm(m(eight), m(eight).t().contiguous(), m(one), m(one),
                                              bias=m(bias), out_dtype=torch.float32)),
    "scaled compiled": (F8, lambda m: torch.compile(lambda a, b, s: torch._scaled_mm(
        a, b, s, s, bias=m(bias), out_dtype=torch.float32))(m(eight), m(eight).t().contiguous(), m(one))),
    "scaled by rows": (F8, lambda m: torch._scaled_mm(m(eight), m(eight).t().contiguous(), *map(m, scales),
                                                      out_dtype=torch.bfloat16)),
}

def of_cpu(name, case):
    if not name.startswith("scaled"):
        return case(lambda t: t)
    product = eight.float() @ eight.float().t()
    if name != "scaled by rows":
        return product * 0.25 + bias
    return (product * scales[0] * scales[1]).bfloat16()

for name, (dtype, case) in cases.items():
    count, result = products(dtype, lambda: case(lambda t: t.to("mydev")).cpu())
    torch.testing.assert_close(result, of_cpu(name, case), msg=lambda text: f"{name}: {text}")
    assert count == 1, (name, count)

# The CPU computes products that the record declines, and wrong calls are refused as there.
there = wide.to("mydev")
with torch_mydev.fallback_census() as census:
    torch.testing.assert_close(torch.bmm(there[None], there[None]).cpu(), torch.bmm(wide[None], wide[None]))
assert [row.op for row in census.rows] == ["aten::bmm"], census
assert "two matrices only" in census.rows[0].declined, census
torch.testing.assert_close((there.to(torch.complex128) @ there.mH.to(torch.complex128)).cpu().real, wide @ wide.mH)
with torch_mydev.fallback_census() as census:
    grouped = torch.randn(6, 1, 2, 2, dtype=torch.float64)
    result = conv2d(images.to("mydev"), grouped.to("mydev"), groups=3)
    torch.testing.assert_close(result.cpu(), conv2d(images, grouped, groups=3))
(row,) = census.rows
assert (row.op, "one group" in row.declined) == ("aten::convolution", True), census
# The record for convolutions has none for gradients beside it: these run on the CPU.
leaves = [tensor.to("mydev").requires_grad_() for tensor in (images, windows)]
conv2d(*leaves).square().sum().backward()
wanted = [tensor.clone().requires_grad_() for tensor in (images, windows)]
conv2d(*wanted).square().sum().backward()
for leaf, of_cpu in zip(leaves, wanted):
    torch.testing.assert_close(leaf.grad.cpu(), of_cpu.grad)
try:
    torch._int_mm(narrow.to("mydev"), narrow.to("mydev"))
except RuntimeError as error:
    assert "size" in str(error) or "shapes" in str(error), error  # the second from torch 2.15 on
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
    (F8, eight, (np.asarray(eight, np.float32) @ np.asarray(eight, np.float32)).astype(jnp.bfloat16), jnp.bfloat16),
]:
    count, result = products(dtype, lambda: np.asarray(dot(kind)(values)))
    tolerance = 1e-5 if kind is not jnp.bfloat16 else 2e-2
    np.testing.assert_allclose(result.astype(into.dtype), into, rtol=tolerance, atol=tolerance)
    assert count == 1, (dtype, count)

def convolved(x, w, **options):
    return jax.lax.conv_general_dilated(x, w, (2, 1), ((1, 0), (2, 1)), rhs_dilation=(1, 2), **options)

images, windows = rng.normal(size=(2, 4, 7, 8)), rng.normal(size=(6, 4, 3, 2))
gradients = jax.grad(lambda x, w: (convolved(x, w) ** 2).sum(), argnums=(0, 1))
cpu = jax.devices("cpu")[0]
for function, number in [(convolved, 1), (gradients, 3)]:
    wanted = jax.jit(function)(*jax.device_put((images, windows), cpu))
    count, result = products(None, lambda: jax.block_until_ready(jax.jit(function)(images, windows)))
    for a, b in zip(jax.tree.leaves(result), jax.tree.leaves(wanted)):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)
    assert count == number, (function, count)
# Its plan declines groups; the host's kernel computes these on copies.
groups = jax.jit(lambda x, w: convolved(x, w, feature_group_count=2))
wanted = groups(*jax.device_put((images, windows[:, :2]), cpu))
np.testing.assert_allclose(np.asarray(groups(images, windows[:, :2])), np.asarray(wanted), rtol=1e-5, atol=1e-5)
# A dtype that the driver does not name, and one that its plan declines, are multiplied by the host's kernel on copies.
complex_values = wide + 1j * wide.T
np.testing.assert_allclose(np.asarray(jnp.dot(complex_values, complex_values)), complex_values @ complex_values)
integers = narrow.astype(np.int32)
assert (np.asarray(jnp.dot(integers, integers)) == integers @ integers).all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [TORCH, CAPTURED, JAX], ids=["torch", "captured", "jax"])
def test_wide_products_reach_the_driver(run_python: Run, program: str) -> None:
    if program is JAX:
        require("jax", "jax==0.10.2")
    result = run_python(
        START + program, MYDEV_DRIVER=WIDE, PYTHONPATH="tests", JAX_PLATFORMS="mydev,cpu" if program is JAX else ""
    )
    assert result.returncode == 0, result.stderr
