"""Processes with a device each: PyTorch/XLA has one kind of device in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

_FOLDER = Path(__file__).parent


def run(script: list[str], device: str, driver: str = "host", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments, on PJRT_DEVICE `device` and MYDEV_DRIVER `driver`."""
    environment = dict(os.environ, PJRT_DEVICE=device, MYDEV_DRIVER=driver, PYTHONWARNINGS="ignore", **variables)
    command = [sys.executable, *script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=_FOLDER)


@cache
def results(script: str, folder: Path, device: str, driver: str) -> dict[str, Any]:
    """What a script of cases saves, by the case's name; run once for each device and driver."""
    path = folder / f"{device}-{driver}.pt"
    result = run([script, str(path)], device, driver)
    assert result.returncode == 0, result.stderr
    loaded = torch.load(path)
    assert isinstance(loaded, dict)
    return loaded


def output(code: str, device: str = "MYDEV", driver: str = "host", **variables: str) -> str:
    """What the code prints; it must succeed."""
    result = run(["-c", code], device, driver, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout
