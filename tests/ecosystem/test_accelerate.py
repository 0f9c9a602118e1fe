"""Hugging Face's accelerate: its scripts train on the device in one process and in several, with no variable set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from support.checkout import environment
from support.programs import ACCELERATE, TORCHRUN
from support.sample_training import adamw, single_process

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed; requirements/test.txt has it")
from accelerate.state import AcceleratorState  # noqa: E402
from accelerate.utils.modeling import get_max_memory  # noqa: E402

#: Trains two steps, saves, trains two more, goes back to what was saved and trains those again; knows of no device.
SCRIPT = """
from accelerate import Accelerator
import json, sys, torch
from torch.nn.functional import cross_entropy
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset
from support.sample_training import STEPS, Network, adamw, batch

accelerator = Accelerator()
data = ConcatDataset([TensorDataset(*batch(step)) for step in range(STEPS)])
network = Network()
loader = DataLoader(data, batch_size=8 // accelerator.num_processes)
model, optimizer, loader = accelerator.prepare(network, adamw(network.parameters()), loader)
batches = list(loader)
losses = []

def train(steps):
    for step in steps:
        inputs, targets = batches[step]
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        losses.append(accelerator.reduce(loss.detach(), reduction="mean").item())

train(range(2))
accelerator.save_state(sys.argv[1])
drawn = torch.rand(3, device=accelerator.device)
train(range(2, STEPS))
accelerator.wait_for_everyone()
accelerator.load_state(sys.argv[1])
again = torch.equal(drawn, torch.rand(3, device=accelerator.device))
train(range(2, STEPS))
facts = {"device": accelerator.device.type, "wrapper": type(model).__name__, "processes": accelerator.num_processes}
accelerator.print(json.dumps({**facts, "same numbers": again, "losses": losses}))
accelerator.end_training()
"""


def run(tmp_path: Path, *launcher: str, **changes: str) -> tuple[dict[str, Any], str]:
    """Runs the script; what its main process printed, and what all wrote to stderr."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = subprocess.run(
        [sys.executable, *launcher, str(script), str(tmp_path / "state")],
        env=environment(OMP_NUM_THREADS="1", **changes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return facts, result.stderr


def assert_trained(facts: dict[str, Any], wrapper: str, processes: int, device: str = "mydev") -> None:
    expected, _ = single_process(make_optimizer=adamw)
    assert (facts["device"], facts["wrapper"], facts["processes"]) == (device, wrapper, processes)
    assert facts["same numbers"]
    torch.testing.assert_close(facts["losses"], expected + expected[2:])


def test_one_process_needs_nothing(tmp_path: Path) -> None:
    facts, said = run(tmp_path)
    assert_trained(facts, "Network", 1)
    assert said.count("mydev: accelerate runs on the device 'mydev'") == 1


@pytest.mark.parametrize(
    "changes",
    [{"MYDEV_INTEGRATIONS": "off"}, {"MYDEV_INTEGRATIONS": "transformers"}, {"ACCELERATE_USE_CPU": "true"}],
    ids=["off", "left out", "the CPU is asked for"],
)
@pytest.mark.program
def test_the_cpu_can_be_had(tmp_path: Path, changes: dict[str, str]) -> None:
    facts, said = run(tmp_path, **changes)
    assert_trained(facts, "Network", 1, device="cpu")
    assert "mydev" not in said


SHARDED = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP"}
FSDP_OPTIONS = ("--num_processes=2", "--use_fsdp", "--fsdp_version=2", "--fsdp_auto_wrap_policy=SIZE_BASED_WRAP")


@pytest.mark.parametrize(
    ("launcher", "environment", "wrapper"),
    [
        (TORCHRUN, {}, "DistributedDataParallel"),
        (TORCHRUN, SHARDED, "FSDPNetwork"),
        pytest.param(ACCELERATE, {}, "DistributedDataParallel", marks=pytest.mark.program),
        pytest.param((*ACCELERATE, *FSDP_OPTIONS), {}, "FSDPNetwork", marks=pytest.mark.program),
    ],
    ids=["torchrun", "torchrun, fsdp2", "accelerate launch", "accelerate launch, fsdp2"],
)
def test_several_processes_need_their_launcher(
    tmp_path: Path, launcher: tuple[str, ...], environment: dict[str, str], wrapper: str
) -> None:
    changes = {"HF_HOME": str(tmp_path), "MYDEV_DRIVER": "host:devices=2"}  # no configuration of accelerate's there
    facts, said = run(tmp_path, *launcher, **changes, **environment)
    assert_trained(facts, wrapper, 2)
    assert said.count("mydev: accelerate runs on the device 'mydev'") == 1


def test_it_may_be_what_imports_torch(run_python: Any) -> None:
    result = run_python("import accelerate; print(accelerate.Accelerator().device)", fresh=True)
    assert result.stdout == "mydev\n", result.stderr
    assert "leaves accelerate alone" not in result.stderr


def test_launcher_may_be_run_as_a_module(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os; print(os.environ['WORLD_SIZE'])")
    changes = {"HF_HOME": str(tmp_path), "MYDEV_DRIVER": "host:devices=2"}
    result = subprocess.run(
        [sys.executable, *ACCELERATE, "--num_processes=2", str(script)],
        env=environment(OMP_NUM_THREADS="1", **changes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.split() == ["2", "2"], result.stderr


def test_too_few_devices_are_reported(run_python: Any) -> None:
    environment = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    code = "from accelerate import Accelerator; Accelerator()"
    result = run_python(code, fresh=True, MYDEV_DRIVER="host:devices=2", **environment)
    assert result.returncode == 1
    assert "MYDEV_DRIVER=host:devices=4" in result.stderr.splitlines()[-1]


@pytest.fixture
def no_state() -> Iterator[None]:
    """accelerate has chosen no device, and forgets what the test has it choose."""
    kept = dict(os.environ)
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    os.environ.clear()
    os.environ.update(kept)


@pytest.mark.usefixtures("no_state")
@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_mixed_precision_is_computed_in(precision: str, dtype: torch.dtype) -> None:
    accelerator = accelerate.Accelerator(mixed_precision=precision)
    assert accelerator.device.type == "mydev"
    layer = accelerator.prepare(torch.nn.Linear(4, 4))
    with accelerator.autocast():
        assert (torch.ones(2, 2, device="mydev") @ torch.ones(2, 2, device="mydev")).dtype == dtype
    loss = layer(torch.full((1, 4), 0.5, device="mydev")).sum() / 4
    accelerator.backward(loss)
    assert layer.weight.grad.dtype == torch.float32
    if precision == "fp16":  # scaled against underflow, really
        assert accelerator.scaler.is_enabled()
        assert accelerator.scaler.get_scale() == 65536
        torch.testing.assert_close(layer.weight.grad.cpu(), torch.full((4, 4), 65536 / 8))
    else:
        assert accelerator.scaler is None


@pytest.mark.usefixtures("no_state")
def test_the_cpu_is_chosen_where_it_is_asked_for() -> None:
    assert accelerate.Accelerator(cpu=True).device.type == "cpu"


def test_memory_is_that_of_the_devices() -> None:
    memory = get_max_memory()
    numbers = [key for key in memory if isinstance(key, int)]
    assert numbers == list(range(torch.accelerator.device_count()))
    assert list(memory)[-1] == "cpu"
    assert 0 < memory[0] <= torch.mydev.get_device_properties(0).total_memory


def test_memory_that_is_given_is_kept() -> None:
    assert get_max_memory({"cpu": "1GB", 0: "2MB"}) == {0: 2 * 10**6, "cpu": 10**9}
    with pytest.raises(ValueError, match=r"names the devices \[98, 99\]"):
        get_max_memory({0: 1, 99: 1, 98: 1})
