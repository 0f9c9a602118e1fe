"""Runs functions of JAX on the device and on JAX's CPU, in one process, and prints what differs as JSON."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
from jax_functions import CASES, Case
from jax_loops import LOOPS

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


def compare(case: Case, device: jax.Device, cpu: jax.Device) -> None:
    """Raises AssertionError where the results are not those of the CPU, by dtype, shape and value."""
    function, given = case
    generator = np.random.default_rng(0)
    arguments = [generator.standard_normal(a).astype(np.float32) if isinstance(a, tuple) else a for a in given]

    def results_on(where: jax.Device) -> list[np.ndarray[Any, Any]]:
        compiled = jax.jit(function)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(compiled(*jax.device_put(arguments, where)))]

    expected = results_on(cpu)
    for actual, wanted in zip(results_on(device), expected, strict=True):
        _check(actual, wanted)


def message_of(case: Case, device: jax.Device, cpu: jax.Device) -> str:
    """Returns what is wrong with a case, whatever it raises; "" if nothing is."""
    try:
        compare(case, device, cpu)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Prints {"cases": how many, "wrong": {name: message}}."""
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    device, cpu = jax.devices(pjrt_mydev.device_name())[0], jax.devices("cpu")[0]
    cases = CASES | {f"loop-{name}": case for name, case in LOOPS.items()}
    messages = {name: message_of(case, device, cpu) for name, case in cases.items()}
    wrong = {name: message for name, message in messages.items() if message}
    print(json.dumps({"cases": len(cases), "wrong": wrong}))


if __name__ == "__main__":
    main()
