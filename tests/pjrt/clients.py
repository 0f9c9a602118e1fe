"""Running clients of the PJRT plugin: each in an interpreter of its own, since a process has one driver.

These tests need no torch. To run them without it, as in an environment for JAX:

    python -m pytest --confcutdir tests/pjrt tests/pjrt

MYDEV_DRIVER puts another driver in the place of ``host``; tests about a driver name its options, or its file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest

import pjrt_mydev
from support.checkout import environment

#: Inline and asynchronous, within and beyond the host's reach, with kernels and without, one device and several.
DRIVERS = ["host", "host:async", "host:remote", "host:devices=4", "host:remote,async,guarded,devices=2,kernels=none"]

#: The first lines of clients that use PyTorch and JAX in one process: `problem` is the line of what a call raises.
TORCH_AND_JAX = """
import json
import torch, numpy as np
import torch_mydev, pjrt_mydev
import jax, jax.numpy as jnp
jax.config.update("jax_platforms", "mydev,cpu")
torch.manual_seed(0)
results = {}
def problem(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
"""


def require(module: str, requirement: str) -> None:
    """Skips the test where the interpreter does not have the module, or the plugin was not built."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{sys.executable} has no {module}: pip install {requirement}")
    if not pjrt_mydev.library_path().exists():
        pytest.skip(f"the plugin was not built: {pjrt_mydev.library_path()} is not there")


def under_test(driver: str) -> str:
    """The driver of MYDEV_DRIVER in the place of ``host`` and ``host:devices=n``, with as many devices."""
    name, _, options = driver.partition(":")
    if name != "host" or not re.fullmatch(r"(devices=\d+)?", options):
        return driver
    given, _, more = os.environ.get("MYDEV_DRIVER", "host").partition(":")
    kept = [option for option in more.split(",") if option and not option.startswith("devices=")]
    return ":".join(filter(None, [given, ",".join(filter(None, [*kept, options]))]))


def run_client(code: str, driver: str = "host", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the code on the driver's devices; whether it succeeded is for the test to say."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment(MYDEV_DRIVER=under_test(driver), OMP_WAIT_POLICY="passive", **variables),
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
