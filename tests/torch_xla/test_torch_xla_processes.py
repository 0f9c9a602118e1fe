"""Several processes under PyTorch/XLA, with a device each: of torchrun, and of torch_xla.launch.

Runs as test_torch_xla.py does, in an environment and in processes of its own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from device_cases import cases, given, training
from processes import free_port, run, run_job

#: For each job: the program that starts the processes, their number, and the driver of each.
_JOBS = {
    "torchrun, 2": ("torchrun", 2, "host"),
    "torchrun, 4": ("torchrun", 4, "host:async"),
    "torchrun, 2 of 4 devices, remote": ("torchrun", 2, "host:remote,async,guarded,devices=4"),
    "launch, 2": ("launch", 2, "host"),
    "launch, 4": ("launch", 4, "host:devices=4"),
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@cache
def _results(folder: Path, job: str) -> list[dict[str, object]]:
    """Returns the results of each process."""
    starter, count, driver = _JOBS[job]
    path = str(folder / job)
    script = ["device_cases.py", path]
    variables = {"XLA_COORDINATOR_PORT": free_port()}
    if starter == "torchrun":
        script = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}", *script]
    else:
        variables |= {"PJRT_LOCAL_PROCESS_COUNT": str(count), "MASTER_PORT": free_port()}
    result = run(script, "MYDEV", driver, **variables)
    assert result.returncode == 0, result.stderr
    return [torch.load(f"{path}-{rank}") for rank in range(count)]


@pytest.mark.parametrize("job", _JOBS)
@pytest.mark.parametrize("name", cases())
def test_collective(name: str, job: str, folder: Path) -> None:
    count = _JOBS[job][1]
    all_given = [given(rank) for rank in range(count)]
    actual = [result[name] for result in _results(folder, job)]
    expected = [cases()[name][1](all_given, rank) for rank in range(count)]
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("job", _JOBS)
def test_training_on_parts_of_a_batch_is_as_in_one_process(job: str, folder: Path) -> None:
    expected = torch.tensor(training(0, 1, torch.device("cpu")))
    for result in _results(folder, job):
        torch.testing.assert_close(torch.tensor(result["training"]), expected)


_START = """
import os, sys, torch, torch_xla, torch.distributed as dist
import torch_xla.core.xla_model as xm, torch_xla.runtime as xr, torch_xla.distributed.xla_backend
dist.init_process_group("xla", init_method="xla://")
rank, device = dist.get_rank(), torch_xla.device()
x = torch.ones(4, device=device)
def print_error_of(f):
    try: f()
    except RuntimeError as error: print(error, flush=True)
"""


def test_each_process_has_a_device() -> None:
    code = """
print(xr.process_index(), xr.process_count(), xr.global_device_count(), xr.addressable_device_count(), xr.world_size())
print((xm.all_reduce(xm.REDUCE_SUM, x) + rank).tolist())
"""
    for rank, result in enumerate(run_job(_START + code, 2)):
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines() == [f"{rank} 2 2 1 2", str([2.0 + rank] * 4)]


def test_data_parallel_training_of_torch_is_as_with_the_whole_batch() -> None:
    code = """
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
model, images, labels = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
copy = torch.nn.Linear(6, 3)
copy.load_state_dict(model.state_dict())
ddp = DistributedDataParallel(model.to(device))
def train(model, images, labels):
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        torch_xla.sync()
train(ddp, images.chunk(2)[rank].to(device), labels.chunk(2)[rank].to(device))
train(copy, images, labels)
torch.testing.assert_close(model.weight.detach().cpu(), copy.weight.detach())
print("equal")
"""
    for result in run_job(_START + code, 2):
        assert result.stdout.endswith("equal\n"), result.stdout + result.stderr


def test_a_process_that_dies_is_named() -> None:
    code = """
print(xm.all_reduce(xm.REDUCE_SUM, x).tolist(), flush=True)
if rank == 1: os._exit(3)
print_error_of(lambda: print(xm.all_reduce(xm.REDUCE_SUM, x * 3).tolist()))
os._exit(0)
"""
    first, second = run_job(_START + code, 2)
    assert (first.returncode, second.returncode) == (0, 3), first.stderr
    assert "process 1 of 2 (" in first.stdout
    assert "has ended" in first.stdout


def test_a_rank_that_is_no_number_is_one_line() -> None:
    result = run(["-c", "import torch_xla; torch_xla.devices()"], "MYDEV", RANK="first", WORLD_SIZE="2")
    assert result.returncode == 1
    assert "RANK=first is no number; torchrun and torch_xla.launch set it" in result.stderr


def test_the_first_process_may_be_done_before_the_others() -> None:
    code = """
import time
print(xm.all_reduce(xm.REDUCE_SUM, x).tolist(), flush=True)
if rank == 1: time.sleep(4)
"""
    for result in run_job(_START + code, 2):
        assert result.returncode == 0, result.stderr
