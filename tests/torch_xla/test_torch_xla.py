"""The plugin under PyTorch/XLA: operators and training against torch_xla's own CPU device, devices, and errors.

Runs in an environment of its own (``make test-torch-xla``): torch_xla wants another torch than the rest. Each device
is used in a process of its own, since PyTorch/XLA has one in a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from operator_cases import cases

_FOLDER = Path(__file__).parent
_DRIVERS = ("host", "host:async", "host:remote,async,guarded", "host:devices=4")


def _run(script: list[str], device: str, driver: str = "host") -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PJRT_DEVICE=device, MYDEV_DRIVER=driver, PYTHONWARNINGS="ignore")
    command = [sys.executable, *script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=_FOLDER)


def _output(code: str, device: str = "MYDEV", driver: str = "host") -> str:
    result = _run(["-c", code], device, driver)
    assert result.returncode == 0, result.stderr
    return result.stdout


@cache
def _results(folder: Path, device: str, driver: str) -> dict[str, list[torch.Tensor] | str]:
    path = folder / f"{device}-{driver}.pt"
    result = _run(["operator_cases.py", str(path)], device, driver)
    assert result.returncode == 0, result.stderr
    loaded = torch.load(path)
    assert isinstance(loaded, dict)
    return loaded


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize("driver", _DRIVERS[:3])
@pytest.mark.parametrize("name", [name for name, _, _ in cases()])
def test_operator(name: str, driver: str, folder: Path) -> None:
    expected = _results(folder, "CPU", "host")[name]
    actual = _results(folder, "MYDEV", driver)[name]
    assert not isinstance(expected, str), expected
    assert not isinstance(actual, str), actual
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


_TRAINING = """
import torch, torch_xla
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(72, 10),
)
images, labels = torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,))
device = torch_xla.device()
model, images, labels = model.to(device), images.to(device), labels.to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(5):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print(loss.item())
"""


@pytest.mark.parametrize("driver", _DRIVERS)
def test_training_is_as_on_the_cpu_step_by_step(driver: str) -> None:
    expected = [float(line) for line in _output(_TRAINING, "CPU").splitlines()]
    actual = [float(line) for line in _output(_TRAINING, "MYDEV", driver).splitlines()]
    assert len(expected) == 5
    assert expected[-1] < expected[0]
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=1e-3, atol=1e-4)


def test_devices_are_those_of_the_driver() -> None:
    code = "import torch_xla; print(len(torch_xla.devices()))"
    assert _output(code, driver="host:devices=4").strip() == "4"
    assert _output(code).strip() == "1"


def test_in_place_loops_and_copies_between_devices() -> None:
    code = """
import torch, torch_xla
x = torch.arange(4.0, device="xla:0")
for _ in range(5):
    x += 1
    torch_xla.sync()
print(x.tolist(), (x.to("xla:1") * 2).tolist())
"""
    assert _output(code, driver="host:devices=4").strip() == "[5.0, 6.0, 7.0, 8.0] [10.0, 12.0, 14.0, 16.0]"


def test_an_operator_that_is_not_there_is_an_error_and_the_next_call_works() -> None:
    code = """
import torch, torch_xla
from torch_xla.experimental import custom_kernel
x = torch.arange(4.0, device=torch_xla.device())
try:
    print(torch_xla._XLAC._xla_tpu_custom_call([x], "payload", [[4]], [torch.float32])[0].cpu())
except RuntimeError as error:
    print("error:", error)
print((torch.ones(2, device=torch_xla.device()) + 1).tolist())
"""
    lines = _output(code).splitlines()
    assert lines[0].startswith("error:") and "tpu_custom_call" in lines[0]
    assert lines[-1] == "[2.0, 2.0]"


def test_torch_mydev_steps_aside_for_another_torch() -> None:
    result = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    (warning,) = [line for line in result.stderr.splitlines() if "Warning: " in line]
    assert "the device 'mydev' is not available in this process: this torch_mydev was built with torch" in warning
    assert "but torch 2.9.0" in warning
