"""The library of built-in kernels, and oneDNN with it: loaded where a kernel of the host's is needed, nowhere else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS, environment

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
DISCRETE = str(DRIVERS / "discrete_driver.so")

#: Prints what a process has loaded after ``import torch``, and after work on the device.
SESSION = """
from pathlib import Path
import torch, torch_mydev

def loaded():
    maps = Path("/proc/self/maps").read_text()
    return [name for name in ("libmydev_host_kernels.so", "libdnnl.so") if name in maps]

print(loaded())
images = torch.ones(2, 3, 8, 8, device=torch_mydev.device_name)
layer = torch.nn.Conv2d(3, 4, 3).to(torch_mydev.device_name)
(layer(images).relu() @ images[0, 0, :6]).sum().backward()
assert layer.weight.grad is not None
print(loaded())
"""


@pytest.mark.parametrize("driver", ["host", "host:async", "host:guarded"])
def test_the_host_driver_loads_them_at_first_need(run_python: Run, driver: str) -> None:
    result = run_python(SESSION, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["[]", "['libmydev_host_kernels.so', 'libdnnl.so']"]


def test_a_device_without_host_access_never_loads_them(run_python: Run) -> None:
    result = run_python(SESSION, MYDEV_DRIVER=DISCRETE)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["[]", "[]"]


def test_they_are_listed_whatever_the_device() -> None:
    command = [sys.executable, "-m", "mydev", "kernels", "list", "--all"]
    result = subprocess.run(
        command, env=environment(MYDEV_DRIVER=DISCRETE), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "mydev.convolution" in result.stdout
