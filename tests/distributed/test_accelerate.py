"""Hugging Face's accelerate on the device: its scripts train in one process and in several, like one on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from support.checkout import environment
from support.sample_training import adamw, single_process

pytest.importorskip("accelerate", reason="accelerate is not installed; requirements/test.txt has it")


#: Trains two steps, saves, trains two more, goes back to what was saved and trains those again; knows of no device.
SCRIPT = """
import json, sys
import torch_mydev
from torch.nn.functional import cross_entropy
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset
from accelerate import Accelerator
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
train(range(2, STEPS))
accelerator.wait_for_everyone()
accelerator.load_state(sys.argv[1])
train(range(2, STEPS))
facts = {"device": accelerator.device.type, "wrapper": type(model).__name__, "processes": accelerator.num_processes}
accelerator.print(json.dumps({**facts, "losses": losses}))
accelerator.end_training()
"""


def run(tmp_path: Path, *launcher: str, **changes: str) -> dict[str, Any]:
    """Runs the script and returns what its main process printed."""
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
    return facts


def assert_trained(facts: dict[str, Any], wrapper: str, processes: int) -> None:
    expected, _ = single_process(make_optimizer=adamw)
    assert (facts["device"], facts["wrapper"], facts["processes"]) == ("mydev", wrapper, processes)
    torch.testing.assert_close(facts["losses"], expected + expected[2:])


def test_one_process_needs_an_environment_variable(tmp_path: Path) -> None:
    assert_trained(run(tmp_path, ACCELERATE_TORCH_DEVICE="mydev"), "Network", 1)


SHARDED = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP"}


@pytest.mark.parametrize(
    ("environment", "wrapper"), [({}, "DistributedDataParallel"), (SHARDED, "FSDPNetwork")], ids=["ddp", "fsdp2"]
)
def test_several_processes_need_the_module_that_runs_the_script(
    tmp_path: Path, environment: dict[str, str], wrapper: str
) -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    facts = run(tmp_path, *torchrun, "-m", "torch_mydev.accelerate", MYDEV_DRIVER="host:devices=2", **environment)
    assert_trained(facts, wrapper, 2)


@pytest.mark.parametrize(
    ("before", "environment", "message"),
    [
        ("Accelerator()", {}, "call use_device() before Accelerator()"),
        ("", {"LOCAL_RANK": "3", "MYDEV_DRIVER": "host:devices=2"}, "MYDEV_DRIVER=host:devices=4"),
    ],
    ids=["too late", "too few devices"],
)
def test_refusals_say_what_to_do(run_python: Any, before: str, environment: dict[str, str], message: str) -> None:
    code = f"from accelerate import Accelerator; {before}\nimport torch_mydev.accelerate as a; a.use_device()"
    result = run_python(code, fresh=True, **environment)
    assert result.returncode == 1
    assert message in result.stderr.splitlines()[-1]
