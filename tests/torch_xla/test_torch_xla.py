"""The plugin under PyTorch/XLA: operators and training against torch_xla's own CPU device, devices, and errors.

Runs in an environment of its own (``make test-torch-xla``): torch_xla wants another torch than the rest. Each device
is used in a process of its own, since PyTorch/XLA has one in a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from operator_cases import cases
from processes import output, results, run

from pjrt_mydev._library import library_path

_DRIVERS = ("host", "host:async", "host:remote,async,guarded", "host:devices=4")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize("driver", _DRIVERS[:3])
@pytest.mark.parametrize("name", [name for name, _, _ in cases()])
def test_operator(name: str, driver: str, folder: Path) -> None:
    expected = results("operator_cases.py", folder, "CPU", "host")[name]
    actual = results("operator_cases.py", folder, "MYDEV", driver)[name]
    assert not isinstance(expected, str), expected
    assert not isinstance(actual, str), actual
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


_TRAINING = """
import torch, torch_xla
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(72, 10),
)
images, labels = torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,))
device = torch_xla.device()
model, images, labels = model.to(device), images.to(device), labels.to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(5):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print(loss.item())
"""


@pytest.mark.parametrize("driver", _DRIVERS)
def test_training_is_as_on_the_cpu_step_by_step(driver: str) -> None:
    expected = [float(line) for line in output(_TRAINING, "CPU").splitlines()]
    actual = [float(line) for line in output(_TRAINING, "MYDEV", driver).splitlines()]
    assert len(expected) == 5
    assert expected[-1] < expected[0]
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=1e-3, atol=1e-4)


def test_in_place_loops() -> None:
    code = """
import torch, torch_xla
x = torch.arange(4.0, device="xla:0")
for _ in range(5):
    x += 1
    torch_xla.sync()
print(x.tolist())
"""
    assert output(code).strip() == "[5.0, 6.0, 7.0, 8.0]"


_FEATURES = {
    "random numbers": """
torch.manual_seed(7)
print(torch.rand(3, device=d).tolist(), torch.randint(0, 9, (4,), device=d).tolist())
print(torch.nn.functional.dropout(torch.ones(8, device=d)).tolist())
print(torch.bernoulli(torch.ones(4, device=d) / 2).tolist())
""",
    "compiled functions": """
step = torch_xla.compile(lambda x: (x * 2 + 1).sum())
print([step(torch.arange(4.0, device=d) * i).item() for i in range(3)])
print(torch.compile(lambda x: x.sqrt() + 1, backend="openxla")(torch.tensor([4.0, 9.0], device=d)).tolist())
""",
    "saving": """
import io
torch.save({"a": torch.arange(3, device=d)}, file := io.BytesIO())
print([torch.load(io.BytesIO(file.getvalue()), map_location=to)["a"].tolist() for to in (None, "cpu")])
""",
    "mixed precision": """
layer, x = torch.nn.Linear(64, 3).to(d), torch.linspace(-1, 1, 64, device=d)[None]
layer.load_state_dict({"weight": torch.arange(192.0).reshape(3, 64) / 64 - 1, "bias": torch.ones(3)})
with torch.autocast("xla", dtype=torch.bfloat16):
    y = layer(x)
y.float().square().sum().backward()
print(y.dtype, y.tolist(), layer.weight.grad.dtype, layer.weight.grad.shape, layer.bias.grad.tolist())
""",
    "large integers and doubles": """
x = torch.tensor([2**53 + 1, -(2**62)], device=d)
print((x + 1).tolist(), (torch.tensor([1.0], device=d, dtype=torch.float64) / 3).tolist())
""",
}


@pytest.mark.parametrize("name", _FEATURES)
def test_feature_is_as_on_the_cpu(name: str) -> None:
    code = "import torch, torch_xla; d = torch_xla.device()" + _FEATURES[name]
    assert output(code) == output(code, "CPU")


def test_memory_that_is_used_is_known() -> None:
    code = """
import torch, torch_xla, torch_xla.core.xla_model as xm
x = torch.zeros(1024, 1024).to("xla")
print(xm.get_memory_info()["bytes_used"])
"""
    assert output(code).strip() == str(4 * 1024 * 1024)


_WRONG = {
    "another torch_xla": (
        "real = plugin.version; plugin.version = lambda package: {'torch_xla': '2.8.0'}.get(package) or real(package)",
        "mydev is for torch_xla 2.9 with torch 2.9, and this process has torch_xla 2.8.0 with torch 2.9.0",
    ),
    "another torch": (
        "real = plugin.version; plugin.version = lambda package: {'torch': '2.8.0'}.get(package) or real(package)",
        "mydev is for torch_xla 2.9 with torch 2.9, and this process has torch_xla 2.9.0 with torch 2.8.0",
    ),
    "no library": (
        "from pathlib import Path; plugin.library_path = lambda: Path('/nowhere/libmydev_pjrt.so')",
        "the PJRT plugin /nowhere/libmydev_pjrt.so is not there; build it",
    ),
    "no driver": (
        "import os; os.environ['MYDEV_DRIVER'] = 'nowhere'",
        "no mydev device: MYDEV_DRIVER='nowhere' is not valid",
    ),
}


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_wrong_with_an_installation_is_one_line(name: str) -> None:
    change, expected = _WRONG[name]
    result = run(["-c", f"import torch_xla, pjrt_mydev.torch_xla as plugin\n{change}\ntorch_xla.device()"], "MYDEV")
    assert result.returncode == 1  # an exception: no signal
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("RuntimeError: ")]
    assert expected in line


def test_the_library_serves_by_its_path() -> None:
    """torch_xla's documentation describes this for a PJRT plugin: no Python of this project chooses it then."""
    code = """
import torch, torch_xla
print(len(torch_xla.devices()), (torch.arange(4.0).to("xla:3") * 2).tolist())
"""
    variables = {"PJRT_LIBRARY_PATH": str(library_path()), "XLA_STABLEHLO_COMPILE": "1"}
    assert output(code, "LIBRARY", "host:devices=4", **variables).strip() == "4 [0.0, 2.0, 4.0, 6.0]"


_WRONG_PATHS = {
    "no library": ("/nowhere/library.so", "Failed to open /nowhere/library.so"),
    "no plugin": (__file__, "invalid ELF header"),
}


@pytest.mark.parametrize("name", _WRONG_PATHS)
def test_a_path_at_which_there_is_no_library_is_one_line(name: str) -> None:
    path, expected = _WRONG_PATHS[name]
    result = run(["-c", "import torch_xla; torch_xla.device()"], "LIBRARY", PJRT_LIBRARY_PATH=path)
    assert result.returncode == 1  # an exception: no signal
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("RuntimeError: ")]
    assert expected in line


def test_a_program_that_is_no_stablehlo_is_one_line() -> None:
    code = "import torch, torch_xla; print((torch.arange(4.0).to('xla') * 2).tolist())"
    result = run(["-c", code], "LIBRARY", PJRT_LIBRARY_PATH=str(library_path()))
    assert result.returncode == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("RuntimeError: ")]
    assert "PyTorch/XLA gives 'mlir' where XLA_STABLEHLO_COMPILE=1" in line


def test_sizes_of_a_program_are_known() -> None:
    code = """
import torch, torch_xla
x = torch.ones(8192, 1024).to("xla")
y = (x * 2).cpu()
"""
    result = run(["-c", code], "MYDEV", PT_XLA_DEBUG_LEVEL="2")
    assert result.returncode == 0, result.stderr
    assert "Graph input size: 0.031250 GB" in result.stderr  # 32 MiB
    assert "Graph output size: 0.031250 GB" in result.stderr


_ENDS = {"at its end": ("print('end')", 0), "at an exception": ("print('end'); raise SystemExit(3)", 3)}


@pytest.mark.parametrize("driver", ["host:async", "host:remote,async,guarded"])
@pytest.mark.parametrize("end", _ENDS)
def test_a_process_may_end_with_work_pending(end: str, driver: str) -> None:
    line, code_of_process = _ENDS[end]
    code = """
import torch, torch_xla
x = torch.ones(1000, 1000, device=torch_xla.device())
for _ in range(4):
    x = x @ x / 1000
torch_xla.sync()
"""
    result = run(["-c", code + line], "MYDEV", driver)
    assert (result.returncode, result.stdout, result.stderr) == (code_of_process, "end\n", "")


def test_loops_in_place_take_no_more_memory_with_each_step() -> None:
    code = """
import torch, torch_xla, torch_xla.core.xla_model as xm
x = torch.zeros(1024, 1024).to("xla")
peaks = []
for _ in range(6):
    x += 1
    torch_xla.sync(wait=True)
    peaks.append(xm.get_memory_info()["peak_bytes_used"])
print(len(set(peaks[1:])), x.mean().item())
"""
    assert output(code).strip() == "1 6.0"


def test_a_cache_of_programs_does_no_harm(tmp_path: Path) -> None:
    """torch_xla writes executables there, and does not read them again through the C API, which it says."""
    code = f"""
import torch, torch_xla, torch_xla.runtime as xr
xr.initialize_cache({str(tmp_path)!r})
print((torch.arange(6.0, device=torch_xla.device()) * 2 + 1).sum().item())
"""
    assert [output(code) for _ in range(2)] == ["36.0\n"] * 2
    assert list(tmp_path.iterdir())


def test_an_operator_that_is_not_there_is_an_error_and_the_next_call_works() -> None:
    code = """
import torch, torch_xla
from torch_xla.experimental import custom_kernel
x = torch.arange(4.0, device=torch_xla.device())
try:
    print(torch_xla._XLAC._xla_tpu_custom_call([x], "payload", [[4]], [torch.float32])[0].cpu())
except RuntimeError as error:
    print("error:", error)
print((torch.ones(2, device=torch_xla.device()) + 1).tolist())
"""
    lines = output(code).splitlines()
    assert lines[0].startswith("error:") and "tpu_custom_call" in lines[0]
    assert lines[-1] == "[2.0, 2.0]"


def test_memory_that_runs_out_is_an_error_and_later_calls_work() -> None:
    """torch_xla tells what a run failed with a second time, at the next one."""
    code = """
import torch, torch_xla
d = torch_xla.device()
for rows, copies in (64 * 2**20, 1), (2**20, 64), (2, 1), (2, 1):
    try:
        print((torch.ones(rows).to(d) * torch.ones(copies, 1).to(d)).cpu()[0, :2].tolist())
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""
    lines = output(code, driver="host:memory=64M").splitlines()
    assert ["out of memory on mydev:0: tried to allocate 256.00 MiB" in line for line in lines] == [True] * 3 + [False]
    assert lines[-1] == "[1.0, 1.0]"


def test_torch_mydev_steps_aside_for_another_torch() -> None:
    result = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    (warning,) = [line for line in result.stderr.splitlines() if "Warning: " in line]
    assert "the device 'mydev' is not available in this process: this torch_mydev was built with torch" in warning
    assert "but torch 2.9.0" in warning


def test_a_vendors_device_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "acme_torch.py").write_text(
        f"def driver():\n    return {{'library': {str(library_path().parent / 'libmydev_host_driver.so')!r}}}\n"
    )
    metadata = tmp_path / "acme_torch-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-torch\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text("[mydev.drivers]\nacme = acme_torch:driver\n")
    code = """
import torch, torch_xla, torch_xla.runtime
print(torch_xla.runtime.device_type(), len(torch_xla.devices()), (torch.arange(4.0).to("xla:1") * 2).tolist())
"""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(tmp_path)]))
    printed = output(code, "ACME", "acme:devices=2", PYTHONPATH=path)
    assert printed.strip() == "ACME 2 [0.0, 2.0, 4.0, 6.0]"
