"""Runs functions of JAX on the device and on JAX's CPU, in one process.

Prints what differs, and which operations had no kernel, as JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jax
import numpy as np
from jax_complex import COMPLEX
from jax_functions import CASES, Case
from jax_loops import LOOPS
from jax_orders import ORDERS
from jax_wide import WIDE

import pjrt_mydev

#: Relative and absolute tolerances, by the result's type.
TOLERANCES = {"float16": 1e-3, "bfloat16": 2e-2}
TOLERANCE = 1e-5


def _check(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    tolerance = TOLERANCES.get(str(actual.dtype), TOLERANCE)
    if actual.dtype.kind not in "fc":  # ml_dtypes
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def compare(case: Case, device: jax.Device, cpu: jax.Device) -> set[str]:
    """Raises AssertionError where the results are not those of the CPU, by dtype, shape and value.

    Returns the operations that the host evaluates for the device.
    """
    function, given = case
    generator = np.random.default_rng(0)
    arguments = [generator.standard_normal(a).astype(np.float32) if isinstance(a, tuple) else a for a in given]

    there = jax.device_put(arguments, device)
    compiled = jax.jit(function).lower(*there).compile()
    expected = jax.jit(function)(*jax.device_put(arguments, cpu))
    for actual, wanted in zip(jax.tree.leaves(compiled(*there)), jax.tree.leaves(expected), strict=True):
        _check(np.asarray(actual), np.asarray(wanted))
    return set(re.findall(r'host "stablehlo\.(\w+)"', pjrt_mydev.program_text(compiled)))


def outcome_of(case: Case, device: jax.Device, cpu: jax.Device) -> tuple[str, set[str]]:
    """Returns what is wrong with a case, whatever it raises, "" if nothing is; and what `compare` returns."""
    try:
        return "", compare(case, device, cpu)
    except Exception as error:
        return f"{type(error).__name__}: {error}", set()


def main() -> None:
    """Prints {"cases": how many, "wrong": {name: message}, "on_host": {operation: names}}."""
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    device, cpu = jax.devices(pjrt_mydev.device_name())[0], jax.devices("cpu")[0]
    loops = {f"loop-{name}": case for name, case in LOOPS.items()}
    cases = CASES | ORDERS | COMPLEX | WIDE | loops
    wrong: dict[str, str] = {}
    on_host: dict[str, list[str]] = {}
    for name, case in cases.items():
        with jax.enable_x64(name in WIDE):
            message, operations = outcome_of(case, device, cpu)
        if message:
            wrong[name] = message
        for operation in operations:
            on_host.setdefault(operation, []).append(name)
    print(json.dumps({"cases": len(cases), "wrong": wrong, "on_host": on_host}))


if __name__ == "__main__":
    main()
