"""Graphs that cannot be compiled, or cannot be run: drivers, compilers, caches and devices that stand in the way."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from support.checkout import DRIVERS
from support.like_eager import X, graphs

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


TRAIN = """
import torch
import torch_mydev
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("mydev")
x = torch.ones(3, 8, device="mydev")
model(x).sum().backward()
expected = [p.grad.clone() for p in model.parameters()]
for iteration in range(2):
    model.zero_grad()
    torch.compile(model)(x).sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], expected)
    torch._dynamo.reset()
print("trained")
"""


@pytest.mark.slow
def test_driver_without_host_access_runs_its_own_operators(run_python: Run) -> None:
    result = run_python(TRAIN, compiler=True, MYDEV_DRIVER=str(DRIVERS / "discrete_driver.so"))
    assert result.stdout == "trained\n", result.stderr
    assert result.stderr.count("is not accessible from the host") == 1


@pytest.mark.slow
@pytest.mark.host_access
def test_without_a_compiler_graphs_run_at_eager_speed(run_python: Run) -> None:
    code = "import torch._inductor.config as config\nconfig.cpp.cxx = ('no-such-compiler',)\n" + TRAIN
    result = run_python(code, compiler=True)
    assert result.stdout == "trained\n", result.stderr
    assert result.stderr.count("found no C++ compiler; install one") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.host_access
def test_a_graph_that_resizes_an_input_is_interpreted(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            x.untyped_storage().resize_(24)
            x.copy_(y)
        return x * 2

    x, y = torch.ones(6, device="mydev"), torch.arange(6.0, device="mydev")
    x.untyped_storage().resize_(0)
    assert torch.compile(function, fullgraph=True)(x, y).tolist() == [0, 2, 4, 6, 8, 10]
    assert x.tolist() == y.tolist()
    assert "resize_storage_bytes_" in str(graphs()[0].reason)
    assert "runs through mydev's own operators" in caplog.text


@pytest.mark.host_access
def test_cache_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    x = torch.ones(3, device="mydev")
    run = torch.compile(lambda x: x.sin() + 1.5)
    with monkeypatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
        with pytest.raises(RuntimeError, match="cannot write its generated code to .*/file/cache: name a directory"):
            run(x)
    torch.testing.assert_close(run(x), x.sin() + 1.5)


@pytest.mark.slow
@pytest.mark.host_access
def test_a_second_process_finds_the_code_compiled(run_python: Run, tmp_path: Path) -> None:
    code = """
import torch
import torch_mydev
from torch._dynamo.utils import counters
print(torch.compile(lambda x: (x @ x).sin().sum(0))(torch.ones(3, 3, device="mydev")).shape)
print(counters["inductor"]["fxgraph_cache_hit"])
"""
    found = [
        run_python(code, compiler=True, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).stdout.split()[-1] for _ in range(2)
    ]
    assert found == ["0", "1"]


def test_out_of_memory_inside_a_graph(run_python: Run) -> None:
    code = """
import torch
import torch_mydev
run = torch.compile(lambda x, n: torch.cat([x.sin().sort()[0]] * n), dynamic=False)
x = torch.rand(1 << 20, device="mydev")
run(x, 2)
before = torch.mydev.memory_allocated()
try:
    run(x, 64)
except torch.OutOfMemoryError as error:
    print("out of memory")
print(torch.mydev.memory_allocated() - before, run(x, 2).shape[0])
"""
    result = run_python(code, compiler=True, MYDEV_DRIVER="host:memory=128M")
    assert result.stdout.split("\n")[:2] == ["out of memory", f"0 {2 << 20}"], result.stdout + result.stderr


def test_an_error_in_the_middle_of_a_graph() -> None:
    run = torch.compile(lambda x, i: (x * 2)[i].sort()[0] @ x.t(), fullgraph=True)
    x, index = X.to("mydev"), torch.tensor([0, 3], device="mydev")
    expected = run(x, index)
    before = mydev.memory_allocated()
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        run(x, torch.tensor([0, 9], device="mydev"))
        mydev.synchronize()
    assert mydev.memory_allocated() == before
    torch.testing.assert_close(run(x, index), expected)


@pytest.mark.devices(2)
def test_second_device() -> None:
    x = torch.ones(3, device="mydev:1")
    result = torch.compile(lambda x: x.sin() + torch.ones(3, device=x.device), fullgraph=True)(x)
    assert result.device == torch.device("mydev:1")
    torch.testing.assert_close(result, x.sin() + 1)
    assert graphs()[0].device == "mydev:1"


@pytest.mark.devices(2)
def test_a_graph_of_two_devices_runs_their_own_operators() -> None:
    x, y = torch.ones(3, device="mydev:0"), torch.ones(3, device="mydev:1")
    total = torch.compile(lambda x, y: x + y.to(x.device), fullgraph=True)(x, y)
    assert (total.device.index, total.tolist()) == (0, [2, 2, 2])
