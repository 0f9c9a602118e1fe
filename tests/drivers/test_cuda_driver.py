"""The CUDA driver on a stub of libcuda, with modules that the machine's C++ compiler makes: failures, faults, graphs.

ctest runs the conformance suite of drivers on it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.conform_command import Cli, conform_command
from support.cuda import cuda_driver

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]

START = """
import torch, torch_mydev
def message_of(function):
    try:
        function()
        torch.mydev.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"
"""


def said(run_python: Run, code: str, **environment: str) -> str:
    environment.setdefault("MYDEV_DRIVER", cuda_driver())
    result = run_python(START + code, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


ALLOCATE = "print(message_of(lambda: torch.empty(1000, device='mydev')))"


@pytest.mark.parametrize(
    ("failure", "code", "expected"),
    [
        ("cuInit:804", ALLOCATE, ["CUDA does not start", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)"]),
        ("cuMemAlloc:2", ALLOCATE, ["OutOfMemoryError", "tried to allocate"]),
        ("cuDevicePrimaryCtxRetain:2", ALLOCATE, ["cuDevicePrimaryCtxRetain of device 0", "CUDA_ERROR_OUT_OF_MEMORY"]),
        (
            "cuStreamSynchronize:700",
            "print(message_of(lambda: torch.ones(1000, device='mydev')))",
            ["CUDA_ERROR_ILLEGAL_ADDRESS (700)", "must be started again"],
        ),
    ],
)
def test_a_failure_has_cudas_name_and_number(run_python: Run, failure: str, code: str, expected: list[str]) -> None:
    message = said(run_python, code, CUDA_STUB_FAIL=failure)
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("library=/nowhere/libcuda.so.1", "NVIDIA's driver is not installed here: /nowhere/libcuda.so.1"),
        ("devise=1", "unknown option 'devise=1' of the CUDA driver; it takes device=N, nvrtc=PATH, cublas=PATH|off, "),
        ("device=first", "'first' is not the number of a device"),
    ],
)
def test_without_its_needs_it_says_so_and_torch_goes_on(run_python: Run, options: str, expected: str) -> None:
    code = ALLOCATE + "\nprint(torch.ones(2).tolist())"
    lines = said(run_python, code, MYDEV_DRIVER=f"cuda:{options}").splitlines()
    assert expected in lines[0]
    assert lines[-1] == "[1.0, 1.0]"


def test_a_device_that_is_not_there_is_named(run_python: Run) -> None:
    message = said(run_python, ALLOCATE, MYDEV_DRIVER=f"{cuda_driver()},device=5")
    assert "'device=5' of the CUDA driver: this process sees 2 devices" in message


@pytest.mark.parametrize(
    "library", ["nvrtc=/nowhere/libnvrtc.so.13", "cublas=/nowhere/libcublasLt.so.13", "cudnn=/nowhere"]
)
def test_a_library_that_is_not_there_is_named(run_python: Run, library: str) -> None:
    driver = f"{cuda_driver()},{library}"
    assert f"option '{library}' of the CUDA driver" in said(run_python, ALLOCATE, MYDEV_DRIVER=driver)


INDEX = """
x = torch.arange(6.0, device="mydev")
wrong = torch.tensor([1, 9], device="mydev")
print(message_of(lambda: x.index_select(0, wrong)))
print(x.index_select(0, torch.tensor([1, 5], device="mydev")).tolist())
"""


def test_an_index_out_of_bounds_is_an_error_of_the_next_wait_and_work_goes_on(run_python: Run) -> None:
    error, *_, works = said(run_python, INDEX).splitlines()
    assert "kernel 'index_select_u32_s64': an index is out of bounds" in error
    assert works == "[1.0, 5.0]"


GRAPH = """
x = torch.arange(6.0, device="mydev")
graph = torch.mydev.MyDevGraph()
x + 1
with torch.mydev.graph(graph):
    y = (x + 1) * 2
for start in (0.0, 1.0, 2.0, 3.0):
    x.copy_(torch.arange(6.0) + start)
    graph.replay()
    print(y.tolist() == ((torch.arange(6.0) + start + 1) * 2).tolist())
"""


def test_a_captured_graph_is_replayed(run_python: Run) -> None:
    assert said(run_python, GRAPH).splitlines()[-4:] == ["True"] * 4


TRAINING = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
data, target = torch.randn(32, 8), torch.randn(32, 1)
def train(model, data, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
    return loss.detach().cpu()
import copy
there = copy.deepcopy(model).to("mydev")
torch.testing.assert_close(train(there, data.to("mydev"), target.to("mydev")), train(model, data, target))
print("trained")
"""


@pytest.mark.slow
def test_a_model_is_trained(run_python: Run) -> None:
    assert said(run_python, TRAINING).splitlines()[-1] == "trained"


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "kernels", "--portable", "--timeout", "600")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["mydev.softmax", "mydev.index_select"])
def test_kernels_in_cuda_c_do_what_their_contracts_say(conform: Cli, kernel: str) -> None:
    """On the processor: threads of a block take turns at barriers."""
    code, out, err = conform("--driver", cuda_driver(), kernel)
    assert code == 0, out + err
