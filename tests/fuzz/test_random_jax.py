"""Random programs of JAX compute on the device what they compute on JAX's CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuzz.rounds import Fuzz
from pjrt.clients import output_of, require

PROGRAMS = Path(__file__).with_name("random_jax.py")


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_random_programs_compute_what_the_cpu_does(fuzz: Fuzz, driver: str) -> None:
    require("jax", "jax==0.10.2")
    for seed in fuzz.seeds(1):
        report = json.loads(output_of(PROGRAMS.read_text(), driver, FUZZ_SEED=str(seed % 2**31)).splitlines()[-1])
        fuzz.made("programs of JAX", report["programs"])
        assert len(report["kinds"]) == 12, f"seed {seed}: {report['kinds']}"
        assert not report["wrong"], "\n".join(f"--- {case['message']}\n{case['script']}" for case in report["wrong"])
