"""Drivers other than the host's, seen from Python: memory that the host cannot reach, and drivers that fail."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

import mydev
from support.checkout import DRIVERS, environment
from support.fork_server import ForkServer

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
BROKEN = DRIVERS / "broken_driver.so"

#: A training step and everyday scripting; prints what the CPU prints for the same seed.
SESSION = """
import torch, torch_mydev
from torch import nn

def session(device):
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    model = nn.Sequential(*features, nn.Flatten(), nn.Linear(36, 5))
    images, labels = torch.randn(6, 1, 8, 8), torch.arange(6) % 5
    model, images, labels = model.to(device), images.to(device), labels.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    values = model[0].weight.detach()
    window = values.view(4, 9)[1:, ::2]
    window.add_(1)
    ordered, order = torch.sort(values.flatten())
    return [loss.detach(), values, window.t(), ordered, order, values.cumsum(0), values[values > 0.5], values.conj()]

with torch_mydev.fallback_census() as census:
    results = session(torch_mydev.device_name)
for result, expected in zip(results, session("cpu"), strict=True):
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
assert sum(row.bytes_copied for row in census.rows) > 0
print(repr(results[0]), "agrees")
"""

#: An operator of an extension whose kernel, the CPU's, gives a view, and one of PyTorch's that the device has.
VIEWS = """
import torch, torch_mydev

library = torch.library.Library("mydev_test", "DEF")
library.define("window(Tensor(a) x) -> Tensor(a)")
library.impl("window", lambda x: x[1:], "CPU")
x = torch.ones(3, device=torch_mydev.device_name)
torch.split_with_sizes(x, [1, 2])[0].zero_()
print(x.tolist())
try:
    torch.ops.mydev_test.window(x).zero_()
except NotImplementedError as error:
    print(error)
print(x.tolist())
"""


@pytest.mark.parametrize(
    "driver",
    [
        "discrete_driver",
        "asynchronous_driver",
        "discrete_driver_1_0",
        "discrete_driver_1_1",
        "discrete_driver_1_3",
    ],
)
def test_memory_that_the_host_cannot_reach(run_python: Run, driver: str) -> None:
    result = run_python(SESSION, MYDEV_DRIVER=str(DRIVERS / f"{driver}.so"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip().endswith("agrees")


def test_view_that_the_cpu_makes_of_memory_that_the_host_cannot_reach_is_refused(run_python: Run) -> None:
    result = run_python(VIEWS, MYDEV_DRIVER=str(DRIVERS / "discrete_driver.so"))
    before, refusal, after = result.stdout.splitlines()
    assert refusal.startswith("mydev_test::window: a view cannot fall back to the CPU on mydev:0"), result.stderr
    assert before == after == "[0.0, 1.0, 1.0]"


#: Code that makes the runtime call each entry of a driver.
USES = {
    "memory_alloc": "torch.empty(1 << 22, device=d)",
    "memory_free": "torch.empty(1 << 22, device=d); mydev.empty_cache()",
    "memory_info": "mydev.mem_get_info()",
    "host_alloc": "torch.empty(1000).pin_memory()",
    "copy": "torch.ones(1 << 20).to(d).cpu()",
    "copy_peer": "torch.ones(2, device=f'{d}:0').to(f'{d}:1')",
    "copy_strided": "torch.empty(4, 3, device=d).copy_(torch.ones(3, 4).t())",
    "stream_create": "mydev.Stream()",
    "stream_status": "mydev.current_stream().synchronize()",
    "stream_query": "mydev.current_stream().query()",
    "stream_synchronize": "mydev.current_stream().synchronize()",
    "stream_wait_event": "e = mydev.Event(); e.record(); mydev.current_stream().wait_event(e)",
    "event_create": "mydev.Event().record()",
    "event_record": "mydev.Event().record()",
    "event_query": "e = mydev.Event(); e.record(); e.query()",
    "event_synchronize": "e = mydev.Event(); e.record(); e.synchronize()",
    "event_elapsed": (
        "a = mydev.Event(enable_timing=True); b = mydev.Event(enable_timing=True); a.record(); b.record(); "
        "b.synchronize(); a.elapsed_time(b)"
    ),
    "launch": "torch.ones(4, device=d) + torch.ones(4, device=d)",
}

#: The same for what is called by destructors and caches, which may have nobody to report to.
RELEASES = {
    "host_free": "x = torch.empty(1000).pin_memory(); del x; torch.accelerator.empty_host_cache()",
    "host_access_end": "torch.zeros(5, device=d).median()",
    "event_destroy": "e = mydev.Event(); e.record(); del e",
}

# One process tries them all: it prints, for each entry, what the failing use raised and what came out of ordinary work
# afterwards.
TRY_ALL = """
import ctypes, json, os, sys
import torch, torch_mydev
d, mydev = torch_mydev.device_name, torch.mydev
driver = ctypes.CDLL(os.environ["MYDEV_DRIVER"].split(":")[0])
torch.ones(4, device=d).sum().item()
report = {}
for entry, use in uses.items():
    mydev.empty_cache()
    mydev.synchronize()
    driver.broken_driver_fail(entry.encode(), 1)
    error = ""
    try:
        exec(use)
        mydev.synchronize()
    except Exception as caught:
        error = f"{type(caught).__name__}: {str(caught).splitlines()[0]}"
    assert driver.broken_driver_fail(b"", 0) == 0, f"nothing called {entry}"
    exec(use)
    mydev.synchronize()
    report[entry] = [error, (torch.ones(3, device=d) * 2).sum().item()]
print(json.dumps(report))
"""


@pytest.fixture(scope="module", params=["", ",async"], ids=["inline", "async"])
def failures(request: pytest.FixtureRequest, fork_server: ForkServer) -> dict[str, tuple[str, float]]:
    """For each entry: the error that its one failure raised, and the result of ordinary work (6.0) afterwards."""
    variables = environment(MYDEV_DRIVER=f"{BROKEN}:devices=2{request.param}")
    result = fork_server.run(f"uses = {USES | RELEASES}\n{TRY_ALL}", variables)
    assert result.returncode == 0, result.stderr
    return {entry: (error, value) for entry, (error, value) in json.loads(result.stdout).items()}


@pytest.mark.parametrize("entry", USES)
def test_a_call_that_fails_once_raises_and_is_survived(failures: dict[str, tuple[str, float]], entry: str) -> None:
    error, value_afterwards = failures[entry]
    of_kernels_and_memory = entry in ("launch", "memory_free")
    assert error.startswith("RuntimeError: " if of_kernels_and_memory else "AcceleratorError: ")
    assert f"{entry} fails on request" in error
    assert value_afterwards == 6.0


@pytest.mark.parametrize("entry", RELEASES)
def test_a_release_that_fails_breaks_nothing(failures: dict[str, tuple[str, float]], entry: str) -> None:
    error, value_afterwards = failures[entry]
    assert error == "" or f"{entry} fails on request" in error
    assert value_afterwards == 6.0


LOAD = """
import torch, torch_mydev
print(torch.mydev.is_available(), torch.mydev.device_count())
try:
    torch.ones(2, device=torch_mydev.device_name)
except RuntimeError as error:
    print(error)
print(torch.ones(2).sum().item())
"""


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ("/no/such/file.so", "/no/such/file.so"),
        ("host:colour=red", "colour"),
        ("host:devices=many", "many"),
        ("host:memory=-1", "-1"),
        (str(BROKEN) + ":fail=device_count", "device_count"),
        (str(BROKEN) + ":devices=2,fail=peer_access", "asking whether device 0 reaches device 1 failed"),
    ],
)
def test_a_driver_that_does_not_load_is_explained(run_python: Run, driver: str, message: str) -> None:
    result = run_python(LOAD, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "False 0"
    assert lines[-1] == "2.0"
    assert message in result.stdout, result.stdout


@pytest.mark.parametrize(
    "defect", ["version", "null", "small", "memory_alloc", "extension_without_table", "alignment", "launch_copies"]
)
def test_a_driver_with_a_broken_table_is_refused(run_python: Run, defect: str) -> None:
    result = run_python(LOAD, MYDEV_DRIVER=str(BROKEN), BROKEN_DRIVER_DEFECT=defect)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("False 0")
    assert "broken_driver.so" in result.stdout


# --- what a driver says ----------------------------------------------------------------------------------------------

LOG = """
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
import torch, torch_mydev
torch.mydev.init()
"""


def test_a_driver_logs_to_pythons_logger(run_python: Run) -> None:
    result = run_python(LOG, MYDEV_DRIVER=str(DRIVERS / "asynchronous_driver.so:devices=2"))
    assert result.stdout == "INFO torch_mydev the asynchronous driver simulates 2 devices\n", result.stderr


def test_a_driver_that_logs_in_silence(run_python: Run) -> None:
    result = run_python(
        "import torch, torch_mydev; torch.mydev.init()", MYDEV_DRIVER=str(DRIVERS / "asynchronous_driver.so")
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


PROPERTIES = """
import torch, torch_mydev
for index in range(2):
    properties = torch.mydev.get_device_properties(index)
    print(properties.uuid.version, properties.architecture, properties.driver_version, properties.native_dtypes,
          properties.max_allocation == properties.total_memory, properties.memory_bandwidth)
print(torch.mydev.can_device_access_peer(0, 1))
"""


def test_properties_that_an_older_driver_does_not_tell(run_python: Run) -> None:
    result = run_python(PROPERTIES, MYDEV_DRIVER=str(DRIVERS / "discrete_driver_1_0.so:devices=2"))
    assert result.stdout.splitlines() == ["8 discrete 1.0 () True 0"] * 2 + ["False"], result.stderr


HEADERS = ["custom_call.h", "driver.h", "driver_extensions.h", "driver_extensions_draft.h"]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("compiler", ["cc -std=c11 -xc", "c++ -std=c++17 -xc++"])
def test_public_headers_need_nothing_else(compiler: str, header: str) -> None:
    options = "-pedantic-errors -Wall -Werror -fsyntax-only"
    command = [*compiler.split(), *options.split(), f"-I{mydev.include_dir()}", "-"]
    code = f'#include "mydev/{header}"\n#include "mydev/{header}"\nint main(void) {{ return 0; }}\n'
    result = subprocess.run(command, input=code, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
