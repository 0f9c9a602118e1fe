"""The OpenCL driver, on the platform that is present: its promises, portable kernels, training, and bad input.

`make test-opencl` installs PoCL, which makes a device of the processor, where no platform is present. Each program runs
in a child. Kernels are compiled once, and found in the caches of OpenCL and of the runtime after that.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from mydev.cli.conform.suite import PROGRAM
from support.checkout import environment
from support.conform_command import Cli, conform_command

pytestmark = [pytest.mark.any_driver, pytest.mark.slow]

Run = Callable[..., subprocess.CompletedProcess[str]]
LIMIT = "opencl:limit=1G"  # a processor's memory is the machine's
MEMORY = ["svm", "buffers", "fine"]


def reason_of_absence() -> str:
    """The words of the driver if it makes no device; "" if it does."""
    command = [str(PROGRAM), "driver", "--case", "loads"]
    result = subprocess.run(
        command, env=environment(MYDEV_DRIVER=LIMIT), capture_output=True, text=True, timeout=60, check=False
    )
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("{")]
    outcome = json.loads(line)
    return "" if outcome["status"] == "passed" else str(outcome["messages"])


@pytest.fixture(scope="session")
def opencl() -> None:
    reason = reason_of_absence()
    if "there is no OpenCL here" in reason or "OpenCL has no platform here" in reason:
        pytest.skip("no platform of OpenCL is present; make test-opencl installs one")
    assert not reason


needs_opencl = pytest.mark.usefixtures("opencl")


def output_of(run_python: Run, program: str, driver: str = LIMIT, **variables: str) -> str:
    result = run_python(program, MYDEV_DRIVER=driver, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


# --- what the driver promises -----------------------------------------------------------------------------------------


@needs_opencl
@pytest.mark.parametrize("options", [*(f"memory={kind}" for kind in MEMORY), "devices=2"])
def test_driver_keeps_its_promises(capsys: pytest.CaptureFixture[str], options: str) -> None:
    if options == "devices=2" and (os.cpu_count() or 1) < 2:
        pytest.skip("needs two devices")
    conform = conform_command(capsys, "driver", "--driver", f"{LIMIT},{options}", "--json", "--timeout", "60")
    code, out, err = conform()
    report = json.loads(out)
    failed = {row["name"]: row["messages"] for row in report["cases"] if row["status"] == "failed"}
    assert (code, failed) == (0, {}), err
    assert report["passed"] > 60


#: Kernels of each kind: printed from expressions, reductions, and templates.
KERNELS = ["exp", "gelu", "clamp", "copy", "sum", "max_with_index", "softmax", "nll_loss", "fused_adam", "cumsum"]


@needs_opencl
@pytest.mark.parametrize(("memory", "kernels"), [("svm", KERNELS), ("buffers", ["exp", "softmax", "nll_loss"])])
def test_portable_kernels_do_what_their_contracts_say(
    capsys: pytest.CaptureFixture[str], memory: str, kernels: list[str]
) -> None:
    """A share of each kernel's dtypes, since PoCL compiles a function in one to three seconds."""
    names = [f"mydev.{name}" for name in kernels]
    forms = [f"mydev?{name}" for name in kernels]  # not exp2, which "exp" is a part of
    conform: Cli = conform_command(capsys, "kernels", "--portable", "--timeout", "600", "--json", "--share", "2/12")
    code, out, err = conform("--driver", f"{LIMIT},memory={memory}", *forms)
    assert out, err
    rows: list[dict[str, Any]] = json.loads(out)["kernels"]
    assert code == 0, rows
    assert {row["kernel"]: (row["status"], row["wrong"]) for row in rows} == dict.fromkeys(names, ("passed", 0))


# --- programs ---------------------------------------------------------------------------------------------------------

TRAINING = """
import copy
import torch, torch_mydev
from torch import nn
import torch.nn.functional as F
from support.graphs import capture

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(11, 16), nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 11))
ids, targets = torch.randint(0, 11, (8, 5)), torch.randint(0, 11, (40,))
device = torch.device("mydev")

def training(device, wrap=lambda f: f):
    there = copy.deepcopy(model).to(device)
    optimizer = torch.optim.SGD(there.parameters(), lr=0.1, momentum=0.9, fused=True)
    x, y = ids.to(device), targets.to(device)
    forward = wrap(lambda: F.cross_entropy(there(x).flatten(0, 1), y))

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = forward()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step

def losses(step, number=4):
    return [step().item() for _ in range(number)]

expected = losses(training("cpu"))
"""
CAPTURED = """
step = training(device)
first = [step().item()]
graph, loss = capture(step)
with torch_mydev.fallback_mode("error"):
    for _ in range(2):
        graph.replay()
        first.append(loss.item())
torch.testing.assert_close(first, [expected[0], *expected[2:]], rtol=1e-5, atol=1e-6)
"""
STEPS = {
    "eager": """
with torch_mydev.fallback_mode("error"):
    torch.testing.assert_close(losses(training(device)), expected, rtol=1e-5, atol=1e-6)
""",
    "captured": CAPTURED,
    "compiled": """
wrap = torch.compile
torch.testing.assert_close(losses(training(device, wrap)), expected, rtol=1e-5, atol=1e-6)
assert {graph.route for graph in torch_mydev.compile_report().graphs} == {"kernels"}, torch_mydev.compile_report()
""",
}


@needs_opencl
@pytest.mark.parametrize("memory", ["svm", "buffers"])
@pytest.mark.parametrize("way", STEPS)
def test_training_gives_the_losses_of_the_cpu(run_python: Run, way: str, memory: str) -> None:
    output_of(run_python, TRAINING + STEPS[way], f"{LIMIT},memory={memory}")


JAX = """
import jax, jax.numpy as jnp, numpy as np
import pjrt_mydev
jax.config.update("jax_platforms", "mydev,cpu")

def loss(weights, x, labels):
    hidden = jnp.tanh(x @ weights["first"])
    scores = jax.nn.log_softmax(hidden @ weights["last"])
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

@jax.jit
def step(weights, x, labels):
    value, gradients = jax.value_and_grad(loss)(weights, x, labels)
    return value, jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradients)

def losses(device):
    keys = np.random.default_rng(0)
    with jax.default_device(device):
        weights = {"first": jnp.asarray(keys.normal(size=(8, 16)), jnp.float32),
                   "last": jnp.asarray(keys.normal(size=(16, 5)), jnp.float32)}
        x, labels = jnp.asarray(keys.normal(size=(32, 8)), jnp.float32), jnp.asarray(keys.integers(0, 5, 32))
        values = []
        for _ in range(5):
            value, weights = step(weights, x, labels)
            values.append(float(value))
    return values

np.testing.assert_allclose(losses(jax.devices("mydev")[0]), losses(jax.devices("cpu")[0]), rtol=1e-5)
"""


@needs_opencl
def test_jax_trains_as_on_the_cpu(run_python: Run) -> None:
    output_of(run_python, JAX, fresh=True)


@needs_opencl
@pytest.mark.parametrize("memory", MEMORY)
def test_parts_of_tensors_are_copied_in_all_directions(run_python: Run, memory: str) -> None:
    program = """
import torch, torch_mydev
there = torch.arange(12800.0).reshape(2, 64, 100)
here = there.to("mydev")
for part in (lambda x: x[:, :, 16:48], lambda x: x[:, 3:5, 16:48], lambda x: x[:, :, ::2], lambda x: x.permute(2, 0, 1),
             lambda x: x[1, 5:9, 30:99], lambda x: x[:1].expand(3, 64, 100)):
    assert torch.equal(part(here).cpu(), part(there))
    assert torch.equal(part(there).to("mydev").cpu(), part(there))
    assert torch.equal(part(here).contiguous().cpu(), part(there))
for part in (lambda x: x[:, :, 16:48], lambda x: x[:, 3:5, 16:48], lambda x: x[1:, ::3, :]):
    a, b, other = there.clone(), here.clone(), torch.randn(2, 64, 100)
    part(a).copy_(part(other)), part(b).copy_(part(other))
    assert torch.equal(b.cpu(), a)
    b = here.clone()
    part(b).copy_(part(other.to("mydev")))
    assert torch.equal(b.cpu(), a)
"""
    output_of(run_python, program, f"{LIMIT},memory={memory}")


@needs_opencl
def test_two_parts_of_a_device_work_together(run_python: Run) -> None:
    program = """
import torch, torch_mydev
x = torch.arange(1000.0, device="mydev:0")
y = x.to("mydev:1")
y.add_(1)
assert torch.equal(y.cpu(), torch.arange(1000.0) + 1) and torch.equal(y.to("mydev:0").cpu(), y.cpu())
"""
    output_of(run_python, program, f"{LIMIT},devices=2")


@needs_opencl
def test_profiles_and_events_have_the_devices_times(run_python: Run) -> None:
    program = """
import time
import torch, torch_mydev
from torch.profiler import ProfilerActivity, profile
x = torch.ones(1 << 20, device="mydev")
(x + 1).sum().item()
start, end = torch.mydev.Event(enable_timing=True), torch.mydev.Event(enable_timing=True)
before = time.monotonic()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiled:
    start.record()
    for _ in range(10):
        x = x + 1
    end.record()
    torch.mydev.synchronize()
passed = 1e3 * (time.monotonic() - before)
assert 0 < start.elapsed_time(end) <= passed, (start.elapsed_time(end), passed)
rows = [event for event in profiled.events() if event.device_type == torch.autograd.DeviceType.PrivateUse1]
assert sum("add" in row.name for row in rows) == 10, [row.name for row in rows]
assert all(0 < row.time_range.elapsed_us() < 1e3 * passed for row in rows), [row.time_range for row in rows]
"""
    output_of(run_python, program)


# --- what goes wrong --------------------------------------------------------------------------------------------------

ERROR = """
import torch, torch_mydev
try:
    torch.ones(2, device="mydev")
except RuntimeError as error:
    print(str(error).splitlines()[0])
print(torch.ones(2).sum().item())
"""


def refusal(run_python: Run, driver: str, **variables: str) -> str:
    """The first line of the error of the first use; PyTorch itself goes on."""
    line, other = output_of(run_python, ERROR, driver, **variables).splitlines()
    assert other == "2.0"
    return line


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("colour=red", "unknown option 'colour=red' of the OpenCL driver; it takes platform=NAME|NUMBER, device="),
        (
            "memory=2G",
            "'memory=2G' of the OpenCL driver: it takes usm, svm, fine or buffers; a size is given by limit=",
        ),
        ("limit=much", "'limit=much' of the OpenCL driver: it takes a size such as 512M"),
        ("devices=0", "'devices=0' of the OpenCL driver: it takes from 1 to 16"),
        ("device=", "'device=' of the OpenCL driver: it takes a part of a name, or a number"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(run_python: Run, option: str, words: str) -> None:
    assert words in refusal(run_python, f"opencl:{option}")


@needs_opencl
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("platform=nobody", "there is no OpenCL platform 'nobody'; there are '"),
        ("platform=99", "there is no OpenCL platform '99'; there are '"),
        ("device=nothing", "has no device 'nothing'; it has '"),
        ("device=0,devices=16", "16"),
    ],
)
def test_what_is_not_there_is_reported_with_what_is(run_python: Run, option: str, words: str) -> None:
    assert words in refusal(run_python, f"opencl:{option}")


@needs_opencl
def test_without_a_platform_one_line_says_so(run_python: Run) -> None:
    line = refusal(run_python, "opencl", fresh=True, OCL_ICD_VENDORS="/nonexistent")
    assert "OpenCL has no platform here; install that of a device" in line


def test_without_opencl_one_line_says_so(run_python: Run) -> None:
    """On machines that have it, the platform is what lacks."""
    line = refusal(run_python, "opencl", fresh=True, OCL_ICD_VENDORS="/nonexistent")
    assert line.startswith("driver 'opencl' does not start: ")
    assert "there is no OpenCL here" in line or "OpenCL has no platform here" in line


@needs_opencl
def test_source_that_does_not_compile_is_reported_in_the_compilers_words(run_python: Run) -> None:
    program = """
import torch, torch_mydev
try:
    torch_mydev._C.compile_kernels(0, "opencl-c", "__kernel void f(__global float* out) { out[0] = nothing; }", "")
except Exception as error:
    print(type(error).__name__, str(error).replace("\\n", " "))
"""
    line = output_of(run_python, program)
    assert "the source does not compile, CL_BUILD_PROGRAM_FAILURE (-11)" in line and "nothing" in line


@needs_opencl
@pytest.mark.parametrize("memory", ["svm", "buffers"])
def test_an_index_out_of_bounds_is_an_index_error(run_python: Run, memory: str) -> None:
    program = """
import torch, torch_mydev
table = torch.ones(3, 2, device="mydev")
for value in (7, 0):
    try:
        rows = table.index_select(0, torch.tensor([value], device="mydev"))
        torch.mydev.synchronize()
        print("fine", rows.sum().item())
    except IndexError as error:
        print("IndexError", str(error).splitlines()[0])
"""
    wrong, right = output_of(run_python, program, f"{LIMIT},memory={memory}").splitlines()
    assert wrong.startswith("IndexError") and right == "fine 2.0"


@needs_opencl
@pytest.mark.parametrize("memory", MEMORY)
def test_running_out_of_memory_is_an_error_and_the_device_works_on(run_python: Run, memory: str) -> None:
    program = """
import torch, torch_mydev
try:
    torch.empty(1 << 31, dtype=torch.uint8, device="mydev")
except torch.OutOfMemoryError as error:
    print("1024.00 MiB" in str(error) or "1.00 GiB" in str(error), error)
kept = [torch.ones(1 << 26, device="mydev") for _ in range(3)]
try:
    kept.append(torch.ones(1 << 26, device="mydev"))
except torch.OutOfMemoryError:
    print("full")
del kept
print(torch.ones(1 << 20, device="mydev").sum().item())
"""
    lines = output_of(run_python, program, f"opencl:limit=900M,memory={memory}").splitlines()
    assert lines[-2:] == ["full", "1048576.0"], lines


@needs_opencl
def test_a_forked_child_is_told_to_be_spawned(run_python: Run) -> None:
    program = """
import os
import torch, torch_mydev
x = torch.ones(2, device="mydev")
child = os.fork()
if child == 0:
    try:
        x.sum().item()
    except RuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(x.sum().item())
"""
    reported, value = output_of(run_python, program, fresh=True).splitlines()
    assert "cannot be used in a forked child" in reported and "'spawn'" in reported and value == "2.0"


@needs_opencl
@pytest.mark.parametrize("memory", MEMORY)
def test_pending_work_does_not_disturb_the_exit(run_python: Run, memory: str) -> None:
    program = """
import torch, torch_mydev
x = torch.ones(1 << 20, device="mydev")
side = torch.mydev.Stream()
with torch.mydev.stream(side):
    side.launch_host_func(lambda: None)
    for _ in range(20):
        y = x * 2
for _ in range(20):
    x = x + 1
"""
    result = run_python(program, fresh=True, MYDEV_DRIVER=f"{LIMIT},memory={memory}")
    assert (result.returncode, result.stderr) == (0, "")
