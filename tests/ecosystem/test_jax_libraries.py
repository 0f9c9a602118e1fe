"""Libraries of JAX on the device: networks that are trained for three steps, and samplers."""

from __future__ import annotations

import json

import pytest

from pjrt.clients import output_of
from support.checkout import TESTS

PROGRAMS = TESTS / "pjrt" / "programs" / "jax_libraries.py"


@pytest.mark.program
@pytest.mark.parametrize("name", ["flax", "flax_nnx", "equinox", "numpyro", "blackjax"])
def test_programs_compute_what_the_cpu_computes(name: str) -> None:
    code = f"""
import runpy, sys
sys.argv = ["", {name!r}]
sys.path.insert(0, {str(PROGRAMS.parent)!r})
runpy.run_path({str(PROGRAMS)!r}, run_name="__main__")
"""
    assert json.loads(output_of(code).splitlines()[-1]) == ""
