"""The validation layer from Python: a missing wait is found and both lines are named; sound programs are left alone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]

ASYNC = "validate:host:async"
REMOTE = "validate:host:remote,async,guarded,devices=2"

#: `a` is written on a side stream, and ready there; what reads it on the default stream follows.
SIDE = """
import torch, torch_mydev
a = torch.ones(1 << 20, device="mydev")
side = torch.mydev.Stream()
torch.mydev.synchronize()
with torch.mydev.stream(side):
    a.mul_(2)
"""

TRAINING = """
import torch, torch_mydev
from torch import nn

class Digits(torch.utils.data.Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((16,), float(index)), index % 4

device = torch.device("mydev")
pin = torch.mydev.is_available()
loader = torch.utils.data.DataLoader(Digits(), batch_size=8, pin_memory=pin, num_workers=WORKERS)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
side = torch.mydev.Stream()
losses = []
for epoch in range(2):
    for x, y in loader:
        with torch.mydev.stream(side):
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
        torch.mydev.current_stream().wait_stream(side)
        x.record_stream(torch.mydev.current_stream())
        y.record_stream(torch.mydev.current_stream())
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
host = torch.empty(len(losses), pin_memory=pin)
host.copy_(torch.stack(losses), non_blocking=True)
torch.mydev.synchronize()
assert host.isfinite().all()
del x, y, loss, losses, model, optimizer
torch.mydev.empty_cache()
print("trained")
"""


def findings(child: subprocess.CompletedProcess[str]) -> int:
    """Returns the number in the line at exit. The line is there only if something was found."""
    said = re.search(r"validate: findings: (\d+)", child.stderr)
    return int(said.group(1)) if said else 0


def run_clean(run: Run, driver: str, code: str) -> None:
    child = run(code, MYDEV_DRIVER=driver)
    assert child.returncode == 0, child.stderr
    assert "validate:" not in child.stderr


@pytest.mark.parametrize("driver", [ASYNC, REMOTE])
def test_missing_wait_is_found_and_both_lines_are_named(run_python: Run, driver: str) -> None:
    child = run_python(SIDE + "a.sum()", fresh=True, MYDEV_DRIVER=driver)
    assert child.returncode != 0
    error = child.stderr
    assert "validate: launch: two streams use the same memory and nothing orders them" in error
    assert re.search(r"mydev\.sum on stream \d+ of device 0 \(0x\w+\), given at <string>:8 in <module>, reads", error)
    assert re.search(r"mydev\.mul on stream \d+ of device 0 \(0x\w+\), given at <string>:7 in <module>, writes", error)
    assert "wait_stream" in error
    assert findings(child) == 1


@pytest.mark.parametrize("driver", [ASYNC, REMOTE])
@pytest.mark.parametrize(
    "wait",
    [
        "torch.mydev.current_stream().wait_stream(side)",
        "side.synchronize()",
        "torch.mydev.synchronize()",
        "torch.mydev.current_stream().wait_event(side.record_event())",
        "side.record_event().synchronize()",
        "while not side.query(): pass",
    ],
)
def test_each_way_to_wait_is_one(run_python: Run, driver: str, wait: str) -> None:
    run_clean(run_python, driver, f"{SIDE}{wait}\nassert a.sum().item() == 2 << 20")


def test_process_goes_on_after_a_finding(run_python: Run) -> None:
    code = f"""{SIDE}
try:
    a.sum()
except RuntimeError as error:
    assert "validate" in str(error)
torch.mydev.current_stream().wait_stream(side)
assert a.sum().item() == 2 << 20
"""
    child = run_python(code, MYDEV_DRIVER=ASYNC)
    assert child.returncode == 0, child.stderr
    assert findings(child) == 1


def test_memory_that_another_stream_uses_is_missed_without_record_stream(run_python: Run) -> None:
    code = """
import torch, torch_mydev
side = torch.mydev.Stream()
a = torch.ones(1 << 20, device="mydev")
side.wait_stream(torch.mydev.current_stream())
with torch.mydev.stream(side):
    b = a * 2
RECORD
del a
c = torch.zeros(1 << 20, device="mydev")
"""
    child = run_python(code.replace("RECORD", ""), MYDEV_DRIVER=ASYNC)
    assert "nothing orders them" in child.stderr
    run_clean(run_python, ASYNC, code.replace("RECORD", "a.record_stream(side)"))


def test_columns_on_two_streams_are_apart(run_python: Run) -> None:
    code = """
import torch, torch_mydev
a = torch.zeros(1 << 12, 10, device="mydev")
torch.mydev.synchronize()
for columns in (slice(0, 5), slice(5, 10)):
    with torch.mydev.stream(torch.mydev.Stream()):
        a[:, columns].add_(1)
torch.mydev.synchronize()
assert a.sum().item() == 10 << 12
"""
    run_clean(run_python, ASYNC, code)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("driver", ["validate:host", ASYNC, REMOTE])
def test_training_with_proper_waits_is_clean(run_python: Run, driver: str, workers: int) -> None:
    run_clean(run_python, driver, TRAINING.replace("WORKERS", str(workers)))


@pytest.mark.parametrize("name", ["discrete", "asynchronous", "partial", "core"])
def test_drivers_of_the_guide_are_clean(run_python: Run, name: str) -> None:
    run_clean(run_python, f"validate:{DRIVERS / name}_driver.so", TRAINING.replace("WORKERS", "0"))


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ("validate:", "MYDEV_DRIVER='validate:' is not valid"),
        ("validate:nobody", "MYDEV_DRIVER='validate:nobody' is not valid"),
        ("validate:validate:host", "is not valid"),
        ("validate:host:color=red", "color=red"),
    ],
)
def test_wrong_names_are_refused(run_python: Run, driver: str, message: str) -> None:
    child = run_python("import torch; torch.empty(1, device='mydev')", fresh=True, MYDEV_DRIVER=driver)
    assert child.returncode != 0
    assert message in child.stderr
