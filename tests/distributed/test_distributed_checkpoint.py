"""Checkpoints of several ranks, read by others; and torchrun, which restarts a training from one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from support import ranks
from support.checkout import environment
from support.ranks import Ranks
from support.sample_training import (
    STEPS,
    Network,
    adamw,
    all_ranks,
    batch,
    optimize,
    shard_fully,
    single_process,
    train,
)

# --- checkpoints ------------------------------------------------------------------------------------------------------


def save_checkpoint(path: str, asynchronous: bool) -> list[float]:
    """Trains two steps, saves, and goes on."""
    model = shard_fully(Network().to(ranks.device()), mesh=all_ranks())
    optimizer = adamw(model.parameters())
    losses = train(model, optimizer, range(2))
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    if asynchronous:
        # A thread saves, whose collectives must not come between those of the training.
        saving = dcp.async_save(state, checkpoint_id=path, process_group=dist.new_group(backend="gloo"))
        losses += train(model, optimizer, range(2, STEPS))
        saving.result()
    else:
        dcp.save(state, checkpoint_id=path)
        losses += train(model, optimizer, range(2, STEPS))
    return losses


def resume_from_checkpoint(path: str) -> list[float]:
    model = shard_fully(Network().to(ranks.device()), mesh=all_ranks())
    optimizer = adamw(model.parameters())
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return train(model, optimizer, range(2, STEPS))


@pytest.fixture(scope="module")
def checkpoint(two: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("checkpoint") / "saved"
    expected, _ = single_process(make_optimizer=adamw)
    for losses in two.run(save_checkpoint, str(path), False):
        torch.testing.assert_close(losses, expected)
    return path


def test_checkpoint_of_two_ranks_resumes_on_two(two: Ranks, checkpoint: Path) -> None:
    expected, _ = single_process(make_optimizer=adamw)
    for losses in two.run(resume_from_checkpoint, str(checkpoint)):
        torch.testing.assert_close(losses, expected[2:])


def test_checkpoint_of_two_ranks_resumes_on_four(four: Ranks, checkpoint: Path) -> None:
    expected, _ = single_process(make_optimizer=adamw)
    for losses in four.run(resume_from_checkpoint, str(checkpoint)):
        torch.testing.assert_close(losses, expected[2:])


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_checkpoint_of_two_ranks_resumes_in_one_process(checkpoint: Path, device: torch.device) -> None:
    model = Network().to(device)
    optimizer = adamw(model.parameters())
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.load(state, checkpoint_id=checkpoint, no_dist=True)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    expected, _ = single_process(make_optimizer=adamw)
    losses = []
    for step in range(2, STEPS):
        inputs, targets = (part.to(device) for part in batch(step))
        losses.append(optimize(model, optimizer, inputs, targets).item())
    torch.testing.assert_close(losses, expected[2:])


def test_checkpoint_saved_while_training_goes_on(two: Ranks, tmp_path: Path) -> None:
    expected, _ = single_process(make_optimizer=adamw)
    for losses in two.run(save_checkpoint, str(tmp_path / "saved"), True):
        torch.testing.assert_close(losses, expected)
    for losses in two.run(resume_from_checkpoint, str(tmp_path / "saved")):
        torch.testing.assert_close(losses, expected[2:])


# --- torchrun ---------------------------------------------------------------------------------------------------------

#: Trains with a checkpoint after each step. The first time, rank 1 is killed while rank 0 saves the third one: before
#: it writes anything itself, or in the middle of its file.
ELASTIC_WORKER = """
import os, signal, sys
from pathlib import Path
import torch, torch_mydev
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from support import ranks
from support.sample_training import STEPS, Network, adamw, all_ranks, shard_fully, train

folder, when = Path(sys.argv[1]), sys.argv[2]

class DyingWriter(dcp.FileSystemWriter):
    def write_data(self, plan, planner):
        if when == "halfway":
            Path(self.path, "__1_0.distcp").write_bytes(b"half of it")
        os.kill(os.getpid(), signal.SIGKILL)

torch.set_num_threads(1)
dist.init_process_group(timeout=ranks.TIMEOUT)
model = shard_fully(Network().to(ranks.device()), mesh=all_ranks())
optimizer = adamw(model.parameters())

def state():
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}

complete = [step for step in range(STEPS) if (folder / f"{step}" / ".metadata").exists()]
if complete:
    loaded = state()
    dcp.load(loaded, checkpoint_id=folder / f"{complete[-1]}")
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
for step in range(len(complete), STEPS):
    loss, = train(model, optimizer, range(step, step + 1))
    dies = step == 2 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1
    writer = (DyingWriter if dies else dcp.FileSystemWriter)(folder / f"{step}")
    dcp.save(state(), storage_writer=writer)
    if dist.get_rank() == 0:
        with open(folder / "losses", "a") as losses:
            print(os.environ["TORCHELASTIC_RESTART_COUNT"], step, loss, file=losses)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "halfway"])
def test_torchrun_restarts_killed_workers_from_the_last_whole_checkpoint(tmp_path: Path, when: str) -> None:
    (tmp_path / "worker.py").write_text(ELASTIC_WORKER)
    options = ["--nproc-per-node=2", "--max-restarts=1", "--standalone"]
    script = [str(tmp_path / "worker.py"), str(tmp_path), when]
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *options, *script],
        # The agent's store, where torchrun shares it, still has the addresses of the workers that ended.
        env=environment(OMP_NUM_THREADS="1", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in (tmp_path / "losses").read_text().splitlines()]
    assert [(int(restarts), int(step)) for restarts, step, _ in lines] == [(0, 0), (0, 1), (1, 2), (1, 3)]
    expected, _ = single_process(make_optimizer=adamw)
    torch.testing.assert_close([float(loss) for _, _, loss in lines], expected)
