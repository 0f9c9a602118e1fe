"""Running clients of the PJRT plugin: each in an interpreter of its own, since a process has one driver.

These tests need no torch. To run them without it, as in an environment for JAX:

    python -m pytest --confcutdir tests/pjrt tests/pjrt
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import pjrt_mydev
from support.checkout import environment

#: Inline and asynchronous, within and beyond the host's reach, with kernels and without, one device and several.
DRIVERS = ["host", "host:async", "host:remote", "host:devices=4", "host:remote,async,guarded,devices=2,kernels=none"]


def require(module: str, requirement: str) -> None:
    """Skips the test where the interpreter does not have the module, or the plugin was not built."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{sys.executable} has no {module}: pip install {requirement}")
    if not pjrt_mydev.library_path().exists():
        pytest.skip(f"the plugin was not built: {pjrt_mydev.library_path()} is not there")


def run_client(code: str, driver: str = "host", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the code on the driver's devices; whether it succeeded is for the test to say."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment(MYDEV_DRIVER=driver, OMP_WAIT_POLICY="passive", **variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def output_of(code: str, driver: str = "host", **variables: str) -> str:
    """Returns what the code prints. If the code fails, the test fails with what the client said."""
    result = run_client(code, driver, **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
