"""Life in a process: threads, fork, spawn, exit."""

from __future__ import annotations

import multiprocessing
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import torch_mydev  # noqa: F401 - a spawned child imports this file, and with it the device

pytestmark = pytest.mark.any_driver

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def check(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


# --- exit -------------------------------------------------------------------------------------------------------------

BACKWARD_LAST = """
import torch, torch_mydev
weight = torch.ones(64, 64, device="mydev", requires_grad=True)
(weight @ weight).relu().sum().backward()
"""


def exits_cleanly(run_python: Run, code: str, times: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: run_python(code), range(times)))
    assert [(result.returncode, result.stderr) for result in results] == [(0, "")] * times


@pytest.fixture
def exits(request: pytest.FixtureRequest) -> int:
    times: int = request.config.getoption("exits")
    return times


def test_scripts_that_end_in_backward_exit_with_zero(run_python: Run, exits: int) -> None:
    exits_cleanly(run_python, BACKWARD_LAST, exits)


def test_scripts_whose_backward_runs_on_autograd_threads_exit_with_zero(run_python: Run, exits: int) -> None:
    code = BACKWARD_LAST.replace("weight =", "torch.autograd.set_multithreading_enabled(True)\nweight =", 1)
    exits_cleanly(run_python, code, exits)


@pytest.mark.parametrize(
    "last_act",
    [
        "raise SystemExit(0)",
        "import sys; sys.exit(0)",
        "kept = [weight]; kept.append(kept)",
        "torch.mydev.Stream().record_event()",
        "import threading; threading.Thread(target=lambda: (weight @ weight).sum().item()).start()",
        "import atexit; atexit.register(lambda: (weight * 2).sum().backward())",
        "del torch, torch_mydev",
    ],
)
def test_exit_is_clean_whatever_the_last_act(run_python: Run, last_act: str) -> None:
    check(run_python(BACKWARD_LAST + last_act, fresh=True))


def test_backward_in_an_exit_handler_older_than_torch(run_python: Run) -> None:
    code = """
import atexit
def last():
    (weight * 2).sum().backward()
    print("gradient", weight.grad.sum().item())
atexit.register(last)
import torch, torch_mydev
torch.autograd.set_multithreading_enabled(True)
weight = torch.ones(3, device="mydev", requires_grad=True)
weight.sum().backward()
"""
    assert "gradient 9.0" in check(run_python(code, fresh=True))


# Work of a second or so, of code that libraries made while the process ran.
PENDING = {
    "products": "x = torch.randn(1500, 1500, device='mydev')\nfor _ in range(6): x = x @ x / 99",
    "convolutions": "x = torch.randn(8, 32, 64, 64, device='mydev'); w = torch.randn(32, 32, 3, 3, device='mydev')\n"
    "for _ in range(9): x = torch.nn.functional.conv2d(x, w, padding=1) / 99",
    "pointwise": "x = torch.randn(2000, 2000, device='mydev')\nfor _ in range(30): x = x.sin().exp().sort(0)[0]"
    ".softmax(0)",
    "host functions": "import time; s = torch.mydev.current_stream(); x = torch.ones(3, device='mydev')\n"
    "for _ in range(5): s.launch_host_func(time.sleep, 0.1); x += 1",
    "compiled": "f = torch.compile(lambda x: (x.sin() * x + 1).sum(0), backend='mydev_kernels')\n"
    "x = torch.randn(3000, 3000, device='mydev')\nfor _ in range(9): f(x)",
    "graph": "g = torch.mydev.MyDevGraph(); x = torch.randn(900, 900, device='mydev'); x @ x\n"
    "with torch.mydev.graph(g): y = (x @ x).exp()\nfor _ in range(30): g.replay()",
}


# oneDNN's code for AVX2 lies in static objects of its own, which exist from its first product on.
@pytest.mark.slow
@pytest.mark.parametrize("isa", ["AVX2", "DEFAULT"])
@pytest.mark.parametrize("work", PENDING)
def test_pending_work_is_waited_for_before_libraries_go(run_python: Run, work: str, isa: str) -> None:
    code = f"import torch, torch_mydev\n{PENDING[work]}"
    check(run_python(code, fresh=True, MYDEV_DRIVER="host:async", OMP_NUM_THREADS="1", ONEDNN_MAX_CPU_ISA=isa))


def test_process_that_never_uses_the_device_exits_with_zero(run_python: Run) -> None:
    check(run_python("import torch, torch_mydev", fresh=True))


# --- fork and spawn ---------------------------------------------------------------------------------------------------

FORKED = """
import os, sys, traceback
import torch, torch_mydev
{before}
child = os.fork()
if child == 0:
    try:
        {inside}
        os._exit(0)
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(3)
    except BaseException:
        traceback.print_exc()
        os._exit(4)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
{after}
"""
USE = 'torch.ones(2, device="mydev").sum().item()'


@pytest.mark.parametrize(
    "inside",
    [
        USE,
        "torch.mydev.synchronize()",
        "torch.mydev.set_device(0)",
        "torch.mydev.current_stream()",
        "torch.mydev.Stream()",
        "torch.mydev.get_device_name()",
        "torch.mydev.get_rng_state()",
    ],
)
def test_forked_child_is_told_to_spawn(run_python: Run, inside: str) -> None:
    output = check(run_python(FORKED.format(before=USE, inside=inside, after="")))
    assert "spawn" in output
    assert "child 3" in output


def test_tensors_of_the_parent_cannot_be_used_in_a_forked_child(run_python: Run) -> None:
    before = 'parent = torch.ones(2, device="mydev")'
    output = check(run_python(FORKED.format(before=before, inside="print((parent + parent).sum().item())", after="")))
    assert "spawn" in output
    assert "child 3" in output


def test_parent_goes_on_after_a_fork(run_python: Run) -> None:
    output = check(run_python(FORKED.format(before=USE, inside="pass", after=f'print("parent", {USE})')))
    assert "child 0" in output
    assert "parent 2.0" in output


def test_fork_before_the_first_use_works(run_python: Run) -> None:
    output = check(run_python(FORKED.format(before="pass", inside=f'print("inside", {USE}, flush=True)', after="")))
    assert "inside 2.0" in output
    assert "child 0" in output


def test_forked_child_knows_that_it_is_one(run_python: Run) -> None:
    inside = "assert torch.mydev._is_in_bad_fork() and not torch.mydev.is_initialized(); torch.manual_seed(0)"
    assert "child 0" in check(run_python(FORKED.format(before=USE, inside=inside, after="")))


def test_cpu_work_in_a_forked_child(run_python: Run) -> None:
    inside = "assert torch.ones(2).sum().item() == 2"
    assert "child 0" in check(run_python(FORKED.format(before=USE, inside=inside, after="")))


def _sum_on_device(queue: multiprocessing.Queue[float]) -> None:
    queue.put(torch.arange(4.0, device="mydev").sum().item())


def test_spawned_child_uses_the_device() -> None:
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[float] = context.Queue()
    child = context.Process(target=_sum_on_device, args=(queue,))
    child.start()
    child.join()  # one number fits into the queue's pipe, so that a child that fails is seen and not waited for
    assert child.exitcode == 0
    assert queue.get() == 6.0


# --- threads ----------------------------------------------------------------------------------------------------------


def test_many_threads_compute_alike(device: torch.device) -> None:
    torch.manual_seed(0)
    weight = torch.randn(32, 32)
    expected = (weight @ weight).relu().sum(0)
    on_device = weight.to(device)

    def compute(_: int) -> torch.Tensor:
        return (on_device @ on_device).relu().sum(0).cpu()

    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(compute, range(64)):
            torch.testing.assert_close(result, expected)


def test_backward_in_many_threads(device: torch.device) -> None:
    def gradient(scale: int) -> float:
        weight = torch.ones(16, device=device, requires_grad=True)
        (weight * scale).sum().backward()
        assert weight.grad is not None
        return weight.grad.sum().item()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(gradient, range(32))) == [16.0 * scale for scale in range(32)]


def test_first_use_from_many_threads_at_once(run_python: Run) -> None:
    code = """
import threading
import torch, torch_mydev
barrier = threading.Barrier(8)
results = []
def work():
    barrier.wait()
    results.append(torch.ones(3, device="mydev").sum().item())
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(results)
"""
    assert check(run_python(code)).strip() == str([3.0] * 8)


def test_tensor_dies_on_another_thread(device: torch.device) -> None:
    box = [torch.ones(1000, device=device)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert box == []
    assert torch.ones(1000, device=device).sum().item() == 1000
