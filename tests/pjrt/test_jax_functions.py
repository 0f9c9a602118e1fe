"""Functions of JAX, each compiled for the device and for JAX's CPU: the same results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

COMPARISON = Path(__file__).parent / "programs" / "jax_comparison.py"

#: Operations without a kernel for some types or bodies: docs/jax.md says which.
ON_HOST = {"bitcast_convert", "compare", "convert", "convolution", "reduce", "reduce_window", "scatter", "sort"}


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_results_are_those_of_the_cpu(driver: str) -> None:
    require("jax", "jax==0.10.2")
    code = f"""
import runpy, sys
sys.path.insert(0, {str(COMPARISON.parent)!r})
runpy.run_path({str(COMPARISON)!r}, run_name="__main__")
"""
    report = json.loads(output_of(code, driver).splitlines()[-1])
    assert report["wrong"] == {}
    assert report["cases"] > 900
    assert set(report["on_host"]) == ON_HOST
