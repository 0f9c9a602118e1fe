"""Fourier transforms of JAX, compiled for the device and for JAX's CPU: the same results, by the device's kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

COMPARISON = Path(__file__).parent / "programs" / "jax_fourier.py"


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,devices=2", "host:remote,kernels=none"])
def test_transforms_are_those_of_the_cpu(driver: str) -> None:
    require("jax", "jax==0.10.2")
    code = f"import runpy; runpy.run_path({str(COMPARISON)!r}, run_name='__main__')"
    report = json.loads(output_of(code, driver).splitlines()[-1])
    assert report["wrong"] == {}
    assert report["cases"] > 500


def test_transforms_are_launches_of_kernels() -> None:
    require("jax", "jax==0.10.2")
    code = """
import jax, jax.numpy as jnp
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", pjrt_mydev.device_name())
def transforms(x):
    return jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fft2(x)
print(pjrt_mydev.program_text(jax.jit(transforms).lower(jnp.ones((4, 6))).compile()))
"""
    text = output_of(code)
    for name in ("mydev.fft_r2c", "mydev.fft_c2r", "mydev.fft_c2c"):
        assert name in text
    assert "stablehlo.fft" not in text
