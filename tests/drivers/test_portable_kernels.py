"""Portable kernels: a device that brings nothing but a compiler runs the built-in kernels, as their contracts say.

Each kernel is compared with its contract by ``mydev conform kernels --portable``. Programs run in a child, on a device
without kernels of its own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from support.checkout import DRIVERS, ROOT
from support.conform_command import Cli, conform_command
from support.selection import share_of_shard

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
COMPILED = "host:remote,kernels=compiled"
SMALL = str(DRIVERS / "compiler_driver.so")  # OpenCL C without f64, groups of one thread, bases and offsets

CONTRACTS = json.loads((ROOT / "mydev" / "include" / "mydev" / "contracts.json").read_text())["contracts"]


PRINTED = {contract["kernel"] for contract in CONTRACTS if contract["expression"]}
#: Kernels that are written as templates.
WRITTEN = {
    *("cumsum", "cumprod", "cummax", "cummin"),
    *("copy", "index_select", "concatenate", "arange", "embedding_backward", "matmul", "nll_loss", "nll_loss_backward"),
    *("softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "layer_norm", "layer_norm_backward"),
    *(
        "group_norm",
        "group_norm_backward",
        "batch_norm_training",
        "batch_norm_inference",
        "batch_norm_backward",
        "convolution",
    ),
    *("convolution_backward_data", "convolution_backward_weights", "max_pool2d", "max_pool2d_backward", "avg_pool2d"),
    *("avg_pool2d_backward", "fused_sgd", "fused_adam", "attention", "attention_backward", "rms_norm"),
    *("rms_norm_backward", "adaptive_avg_pool2d", "adaptive_avg_pool2d_backward", "upsample_nearest"),
    *("upsample_nearest_backward", "upsample_linear", "upsample_linear_backward", "isin", "gather", "scatter"),
    *("scatter_add", "index_copy", "index_add", "flat_index", "triangle", "gather_slices", "scatter_slices"),
    *("scatter_slices_add", "scatter_slices_mul", "scatter_slices_max", "scatter_slices_min", "nonzero", "sort"),
    *("topk", "logcumsumexp", "random_uniform", "random_normal", "random_exponential", "random_integers"),
    *("random_bernoulli", "dropout", "threefry2x32", "rng_bit_generator"),
}
PORTABLE = sorted(PRINTED | {f"mydev.{name}" for name in WRITTEN})


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "kernels", "--portable", "--timeout", "600")


@pytest.fixture
def share(pytestconfig: pytest.Config) -> str:
    return share_of_shard(pytestconfig, of=12)


def rows(conform: Cli, driver: str, *names: str) -> list[dict[str, Any]]:
    code, out, err = conform("--driver", driver, "--json", *names)
    assert out, err
    report = json.loads(out)
    assert code == 0, report
    found: list[dict[str, Any]] = report["kernels"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kernel", PORTABLE)
def test_a_kernel_does_what_its_contract_says(conform: Cli, share: str, kernel: str) -> None:
    (row,) = [row for row in rows(conform, COMPILED, kernel, "--share", share) if row["kernel"] == kernel]
    # A share may hold only dtypes that the host does not compare, or that the record does not take.
    assert row["status"] == "passed" or (share != "0/1" and row["status"] == "skipped"), row
    assert row["wrong"] == 0, row


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["mydev.exp", "mydev.softmax", "mydev.sort"])
def test_a_small_device_has_them_but_for_f64(conform: Cli, share: str, kernel: str) -> None:
    (row,) = [row for row in rows(conform, SMALL, kernel, "--share", share) if row["kernel"] == kernel]
    assert row["status"] == "passed" or (share != "0/1" and row["status"] == "skipped"), row
    assert row["wrong"] == 0, row
    assert share != "0/1" or any("f64" in reason for reason in row["reasons_declined"]), row


def test_a_device_on_which_the_host_computes_has_none(conform: Cli) -> None:
    code, _, err = conform("--driver", "host")
    assert code == 1
    assert "the host computes on its memory" in err


START = """
import torch, torch_mydev
from torch import nn
import torch.nn.functional as F

def census_of(function):
    with torch_mydev.fallback_census() as census:
        result = function()
        torch.mydev.synchronize()
    return result, {row.op for row in census.rows}
"""

TRAINING = """
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(11, 16), nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 11))
ids, targets = torch.randint(0, 11, (8, 5)), torch.randint(0, 11, (40,))

def train(model, ids, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()

import copy
there = copy.deepcopy(model).to("mydev")
losses, fell_back = census_of(lambda: train(there, ids.to("mydev"), targets.to("mydev")))
torch.testing.assert_close(losses, train(model, ids, targets), rtol=1e-5, atol=1e-6)
print(sorted(fell_back))
"""


def test_a_model_is_trained_without_a_fallback(run_python: Run) -> None:
    result = run_python(START + TRAINING, MYDEV_DRIVER="host:remote,async,guarded,kernels=compiled")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["[]"]


COUNTED = """
x = torch.ones(5, device="mydev")
with torch.mydev.launch_statistics() as statistics:
    x + 1
    torch.mydev.synchronize()
(row,) = [row for row in statistics.rows if row.name == "mydev.add"]
print(row.kind, row.command, row.calls, row.portable, "portable" in str(statistics))
"""


@pytest.mark.parametrize(
    ("driver", "counted"), [(COMPILED, "launch portable 1 1 True"), ("host", "launch launch 1 0 False")]
)
def test_statistics_tell_portable_kernels_from_others(run_python: Run, driver: str, counted: str) -> None:
    result = run_python(START + COUNTED, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == counted


REFUSED = """
x = torch.ones(5, device="mydev")
print((x + 1).tolist(), (x * 2).tolist(), (x + 1).tolist())
"""


def test_what_the_compiler_refuses_runs_elsewhere(run_python: Run) -> None:
    """A compiler that takes nothing: operators fall back, and each source is reported once."""
    result = run_python(START + REFUSED, MYDEV_DRIVER=COMPILED, CXX="false", XDG_CACHE_HOME="/nonexistent")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [" ".join([str([2.0] * 5)] * 3)]
    assert result.stderr.count("refuses the source of mydev.add/") == 1
