"""Real programs of JAX: three steps of training, a simulation, a sampler, as on JAX's CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

TRAINING = Path(__file__).with_name("jax_training.py")


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_programs_compute_what_the_cpu_computes(driver: str) -> None:
    require("jax", "jax==0.10.2")
    require("optax", "optax==0.2.8")
    code = f"import runpy; runpy.run_path({str(TRAINING)!r}, run_name='__main__')"
    messages = json.loads(output_of(code, driver).splitlines()[-1])
    assert len(messages) == 5
    assert {name: message for name, message in messages.items() if message} == {}
