"""Libraries of JAX on the device: networks that are trained for three steps, and samplers.

The libraries are of `make test-ecosystem`: without them the tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

PROGRAMS = Path(__file__).with_name("jax_libraries.py")
LIBRARIES = {
    "flax": "flax==0.12.8",
    "flax_nnx": "flax==0.12.8",
    "equinox": "equinox==0.13.8",
    "numpyro": "numpyro==0.22.0",
    "blackjax": "blackjax==1.7.1",
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_programs_compute_what_the_cpu_computes(name: str) -> None:
    require("jax", "jax==0.10.2")
    require("optax", "optax==0.2.8")
    require(name.partition("_")[0], LIBRARIES[name])
    code = f"""
import runpy, sys
sys.argv = ["", {name!r}]
sys.path.insert(0, {str(PROGRAMS.parent)!r})
runpy.run_path({str(PROGRAMS)!r}, run_name="__main__")
"""
    assert json.loads(output_of(code).splitlines()[-1]) == ""
