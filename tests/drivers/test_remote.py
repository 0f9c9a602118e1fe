"""Devices whose memory the host does not reach: the host driver's remote mode, with all kernels, and one with none.

Each program runs in a child, on that driver, and compares with the CPU.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS, KERNELS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
REMOTE = "host:remote,async,guarded"
DISCRETE = str(DRIVERS / "discrete_driver.so")


def succeeds(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr


#: Momentum of running statistics is a write that their operators' schemas do not tell.
TRAINING = """
import torch, torch_mydev
from torch import nn

def train(device):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )
    images, labels = torch.randn(16, 1, 8, 8), torch.arange(16) % 10
    model, images, labels = model.to(device), images.to(device), labels.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return {name: value.cpu() for name, value in model.state_dict().items()}

with torch_mydev.fallback_mode(MODE):
    actual = train("mydev")
torch.testing.assert_close(actual, train("cpu"), rtol=1e-4, atol=1e-5)
"""


def test_training_on_a_remote_device_needs_no_fallback(run_python: Run) -> None:
    succeeds(run_python(TRAINING.replace("MODE", "'error'"), MYDEV_DRIVER=REMOTE))


def test_training_by_copies_alone_gives_what_the_cpu_gives(run_python: Run) -> None:
    succeeds(run_python(TRAINING.replace("MODE", "'allow'"), MYDEV_DRIVER=DISCRETE))


#: Operators without a kernel, over operands whose places in memory matter.
FALLING_BACK = """
import torch, torch_mydev

library = torch.library.Library("mydev_test_remote", "DEF")
library.define("every_other(Tensor x) -> Tensor")
library.impl("every_other", lambda x: (x * 2)[:, ::2], "CPU")

def results(device):
    base = torch.arange(24.0, device=device).reshape(2, 3, 4)
    wide = torch.arange(4000.0, device=device).reshape(40, 100)
    shared = torch.arange(12.0, device=device)
    shared[2:8].copysign_(-shared[2:8])
    return [
        torch.copysign(base.transpose(0, 2), base.transpose(0, 2)),
        torch.copysign(base[:1].expand(2, 3, 4), base.permute(0, 2, 1).contiguous().permute(0, 2, 1)),
        torch.hypot(wide[:, ::50], wide[:, :2]),
        torch.complex(base.transpose(1, 2), base.transpose(1, 2)),
        shared,
        torch.tril(wide.t(), out=torch.empty(0, device=device)),
        torch.linalg.lstsq(torch.eye(4, 3, device=device), base.reshape(4, 6)).solution,  # with gaps
        torch.ops.mydev_test_remote.every_other(wide),
    ]

for actual, expected in zip(results("mydev"), results("cpu"), strict=True):
    torch.testing.assert_close(actual.cpu(), expected)
    assert actual.stride() == expected.stride(), (actual.stride(), expected.stride())

x = torch.zeros(8, device="mydev")
try:
    x[:4].copysign_(x[2:6])
except RuntimeError as error:
    assert "memory location" in str(error), error
else:
    raise AssertionError("operands that overlap were taken")

# One tensor twice, as an operand and as the result, which would have to grow.
one = torch.ones((), device="mydev")
try:
    torch.hypot(one, torch.ones(3, device="mydev"), out=one)
except RuntimeError:
    assert one.shape == () and one.item() == 1
else:
    raise AssertionError("an operand was resized as a result")
"""


@pytest.mark.parametrize("driver", [REMOTE, DISCRETE], ids=["remote", "discrete"])
def test_fallback_by_copies_lays_out_and_refuses_as_the_cpu(run_python: Run, driver: str) -> None:
    succeeds(run_python(FALLING_BACK, MYDEV_DRIVER=driver))


def test_census_counts_copies_in_both_directions(run_python: Run) -> None:
    code = """
import torch, torch_mydev
x = torch.arange(6.0, device="mydev")
with torch_mydev.fallback_census() as census:
    x.flip(0).sort()
bytes_copied = {row.op: row.bytes_copied for row in census.rows}
assert bytes_copied == {"aten::flip": 24 + 24, "aten::sort.stable": 24 + 24 + 48}, bytes_copied
"""
    succeeds(run_python(code, MYDEV_DRIVER=DISCRETE))


#: A library of kernels for the host, on a device that the host does not reach.
USERS_KERNEL = f"""
import torch, torch_mydev

torch_mydev.load_custom_calls({str(KERNELS / "c_library.so")!r})
wide = torch.arange(12.0, device="mydev").reshape(6, 2)
with torch_mydev.fallback_census() as census:
    twice = torch.ops.mydev_cc.c_twice(wide[:, 1])
assert twice.tolist() == [2.0, 6.0, 10.0, 14.0, 18.0, 22.0], twice
assert [(row.op, row.calls, row.bytes_copied) for row in census.rows] == [("c.twice", 1, 44 + 24)], census
with torch_mydev.fallback_mode("error"):
    try:
        torch.ops.mydev_cc.c_twice(twice)
    except NotImplementedError as error:
        assert "c.twice" in str(error), error
    else:
        raise AssertionError("it ran on copies where nothing may fall back")
"""


def test_users_host_kernel_runs_on_copies_and_is_counted(run_python: Run) -> None:
    succeeds(run_python(USERS_KERNEL, MYDEV_DRIVER=REMOTE))


def test_host_is_refused_what_it_does_not_reach(run_python: Run) -> None:
    code = """
import torch, torch_mydev
x = torch.ones(3, device="mydev")
assert not torch.mydev.get_device_properties(0).host_accessible
x.share_memory_()
"""
    result = run_python(code, MYDEV_DRIVER=REMOTE)
    assert result.returncode != 0
    assert "cannot be shared between processes" in result.stderr, result.stderr


@pytest.mark.parametrize("driver", [REMOTE, DISCRETE], ids=["remote", "discrete"])
def test_queue_tells_its_receiver_what_cannot_be_sent(run_python: Run, driver: str) -> None:
    code = """
import torch, torch_mydev
queue = torch.multiprocessing.get_context("spawn").Queue()
queue.put(torch.ones(3, device="mydev"))
queue.put(torch.ones(3, device="mydev").cpu())
try:
    queue.get(timeout=60)
except RuntimeError as error:
    print(error)
print(queue.get(timeout=60).tolist())
"""
    result = run_python(code, MYDEV_DRIVER=driver)
    succeeds(result)
    refusal, sent = result.stdout.splitlines()[-2:]
    assert refusal.startswith("a tensor could not be sent through a queue: the memory of mydev:0 cannot be shared")
    assert refusal.endswith("send a copy, made with .cpu()")
    assert sent == "[1.0, 1.0, 1.0]"


#: Batches that workers make on the device, or on the CPU for the caller to pin and move.
LOADER = """
import functools, torch, torch_mydev
from torch.utils.data import DataLoader

collate = functools.partial(torch.tensor, device="WHERE")
options = {"num_workers": 1, "multiprocessing_context": "spawn", "pin_memory": "WHERE" == "cpu"}
for batch in DataLoader(range(4), batch_size=2, collate_fn=collate, timeout=60, **options):
    print(batch.is_pinned(), batch.to("mydev", non_blocking=True).tolist())
"""


def test_batches_of_workers_are_pinned_and_moved(run_python: Run) -> None:
    result = run_python(LOADER.replace("WHERE", "cpu"), fresh=True, MYDEV_DRIVER=REMOTE)
    succeeds(result)
    assert result.stdout.splitlines() == ["True [0, 1]", "True [2, 3]"]


def test_batches_that_workers_make_on_the_device_are_refused(run_python: Run) -> None:
    result = run_python(LOADER.replace("WHERE", "mydev"), fresh=True, MYDEV_DRIVER=REMOTE)
    assert result.returncode != 0
    assert "cannot be shared between processes" in result.stderr.splitlines()[-1], result.stderr
