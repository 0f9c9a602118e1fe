"""Processes with a device each: PyTorch/XLA has one kind of device in a process."""

from __future__ import annotations

import os
import socket
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
    """Returns what a script of cases saves, by the case's name. The script runs once for each device and driver."""
    path = folder / f"{device}-{driver}.pt"
    result = run([script, str(path)], device, driver)
    assert result.returncode == 0, result.stderr
    loaded = torch.load(path)
    assert isinstance(loaded, dict)
    return loaded


def output(code: str, device: str = "MYDEV", driver: str = "host", **variables: str) -> str:
    """Returns what the code prints; the code must succeed."""
    result = run(["-c", code], device, driver, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


def free_port() -> str:
    """A port of this host that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def run_job(code: str, count: int, **variables: str) -> list[subprocess.CompletedProcess[str]]:
    """Runs the code in so many processes with a device each, which know each other as torchrun's do."""
    job = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
    job |= {"MASTER_PORT": free_port(), "XLA_COORDINATOR_PORT": free_port(), "TORCHELASTIC_RUN_ID": "test"}
    job |= {"PJRT_DEVICE": "MYDEV", "MYDEV_DRIVER": "host", "PYTHONWARNINGS": "ignore"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **job, "RANK": str(rank), "LOCAL_RANK": str(rank), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=_FOLDER,
        )
        for rank in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(processes, outputs, strict=True)
    ]
