"""Drivers other than the host's, seen from Python: memory that the host cannot reach, and drivers that fail."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
DRIVERS = Path(__file__).resolve().parent.parent / "build" / "release" / "drivers"

#: A training step and everyday scripting; prints what the CPU prints for the same seed.
SESSION = """
import torch, torch_mydev
from torch import nn

def session(device):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    )
    images, labels = torch.randn(6, 1, 8, 8), torch.arange(6) % 5
    model, images, labels = model.to(device), images.to(device), labels.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    values = model[0].weight.detach()
    window = values.view(4, 9)[1:, ::2]
    window.add_(1)
    ordered, order = torch.sort(values.flatten())
    return [loss.detach(), values, window.t(), ordered, order, values.cumsum(0), values[values > 0.5], values.conj()]

with torch_mydev.fallback_census() as census:
    results = session(torch_mydev.device_name)
for result, expected in zip(results, session("cpu")):
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
assert sum(row.bytes_copied for row in census.rows) > 0
x = torch.ones(3, device=torch_mydev.device_name)
try:
    torch.ops.aten.split_with_sizes(x, [1, 2])[0].zero_()
except NotImplementedError as error:
    print("refused:", error)
print(repr(x), "agrees")
"""


def test_memory_that_the_host_cannot_reach(run_python: Run) -> None:
    result = run_python(SESSION, MYDEV_DRIVER=str(DRIVERS / "discrete_driver.so"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip().endswith("agrees")


#: Calls every entry of a driver at least once; each failure must be an exception of Python.
EXERCISE = """
import torch, torch_mydev
d = torch_mydev.device_name
caught = []

def attempt(action):
    try:
        return action()
    except Exception as error:
        caught.append(error)

def everything():
    attempt(lambda: torch.ones(3, device=d).add(1).sum().item())
    attempt(lambda: torch.ones(1 << 22, device=d))
    attempt(lambda: torch.zeros(5, device=d).sort())
    attempt(lambda: torch.ones(4).pin_memory().to(d, non_blocking=True))
    attempt(lambda: torch.ones(2, device=f"{d}:0").to(f"{d}:1"))
    attempt(lambda: torch.accelerator.get_memory_info())
    def events():
        stream = torch.Stream(device=d)
        start, end = torch.Event(d, enable_timing=True), torch.Event(d, enable_timing=True)
        start.record(stream); end.record(stream)
        stream.wait_event(end); end.query(); end.synchronize(); stream.query(); stream.synchronize()
        start.elapsed_time(end)
    attempt(events)
    attempt(lambda: torch.accelerator.synchronize())
    attempt(lambda: torch.accelerator.empty_cache())

everything()
first = list(caught)
for error in first:
    assert isinstance(error, RuntimeError), repr(error)
    assert "on request" in str(error) or "device" in str(error) or "memory" in str(error), error
caught.clear()
everything()
assert not caught, f"not usable afterwards: {caught}"
print("failures:", len(first), "usable")
"""

ENTRIES = [
    "memory_alloc", "memory_info", "host_alloc", "host_access_begin", "copy", "copy_peer", "stream_create",
    "stream_query", "stream_synchronize", "stream_wait_event", "event_create", "event_record", "event_query",
    "event_synchronize", "event_elapsed", "launch",
]  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_call_that_fails_once_is_survived(run_python: Run, entry: str) -> None:
    driver = f"{DRIVERS / 'broken_driver.so'}:fail={entry},times=1,devices=2,async"
    result = run_python(EXERCISE, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "usable" in result.stdout


@pytest.mark.parametrize(
    "entry", ["memory_free", "host_free", "host_access_end", "stream_destroy", "event_destroy", "fill"]
)
def test_a_release_that_fails_breaks_nothing(run_python: Run, entry: str) -> None:
    driver = f"{DRIVERS / 'broken_driver.so'}:fail={entry},times=1,devices=2"
    result = run_python(EXERCISE, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "usable" in result.stdout


LOAD = """
import torch, torch_mydev
print(torch.mydev.is_available(), torch.mydev.device_count())
try:
    torch.ones(2, device=torch_mydev.device_name)
except RuntimeError as error:
    print(error)
print(torch.ones(2).sum().item())
"""


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ("nonesuch", "nonesuch"),
        ("/no/such/file.so", "/no/such/file.so"),
        ("host:colour=red", "colour"),
        ("host:devices=many", "many"),
        ("host:memory=-1", "-1"),
        (str(DRIVERS / "broken_driver.so") + ":fail=device_count,times=1000", "device_count"),
    ],
)
def test_a_driver_that_does_not_load_is_explained(run_python: Run, driver: str, message: str) -> None:
    result = run_python(LOAD, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "False 0"
    assert lines[-1] == "2.0"
    assert message in result.stdout, result.stdout


@pytest.mark.parametrize("defect", ["version", "null", "small", "memory_alloc"])
def test_a_driver_with_a_broken_table_is_refused(run_python: Run, defect: str) -> None:
    result = run_python(LOAD, MYDEV_DRIVER=str(DRIVERS / "broken_driver.so"), BROKEN_DRIVER_DEFECT=defect)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("False 0")
    assert "broken_driver.so" in result.stdout
