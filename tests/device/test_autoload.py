"""``import torch`` makes the device known, whoever imports what first, and survives whatever is wrong with our build.

The package under test is a copy, which a test may break.
"""

from __future__ import annotations

import shutil
import subprocess
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from support.checkout import linked_library
from support.installation import Installation

pytestmark = pytest.mark.any_driver

USE = "print('value', (torch.ones(2, device='mydev') + 1).sum().item())"


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def works(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr
    assert "value 4.0" in result.stdout
    assert "Warning" not in result.stderr


# --- a working build --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "imports",
    [
        "import torch",
        "import torch_mydev, torch",
        "import torch, torch_mydev",
        "import torch_mydev.observe.fallback, torch",
        "from torch_mydev import fallback_census; import torch",
        "import torch.nn",
    ],
)
def test_any_order_of_imports_makes_the_device_known(installation: Installation, imports: str) -> None:
    works(installation.run(f"{imports}\n{USE}"))


@pytest.mark.parametrize("imports", ["import torch", "import torch_mydev"])
def test_public_names_are_there_whoever_imported_the_package(installation: Installation, imports: str) -> None:
    works(installation.run(f"{imports}\nimport torch, torch_mydev\ntorch_mydev.fallback_census()\n{USE}"))


@pytest.mark.parametrize("first", ["torch", "torch_mydev"])
def test_imports_from_two_threads(installation: Installation, first: str) -> None:
    second = "torch_mydev" if first == "torch" else "torch"
    code = f"""
import importlib, threading
barrier = threading.Barrier(2)
failures = []
def load(name):
    barrier.wait()
    try:
        importlib.import_module(name)
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=load, args=[name]) for name in ("{first}", "{second}")]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures
import torch, torch_mydev
torch_mydev.fallback_census()
{USE}
"""
    works(installation.run(code))


def test_autoload_can_be_switched_off(installation: Installation) -> None:
    code = "import torch\nassert not hasattr(torch, 'mydev')\nimport torch_mydev\n" + USE
    works(installation.run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))


def test_import_starts_no_thread_and_loads_no_driver(installation: Installation) -> None:
    code = """
import os
import torch
from torch_mydev import _C
assert not _C.driver_loaded() and not torch.mydev.is_initialized()
names = {open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")}
assert len(names) == 1, names
torch.manual_seed(3)
assert not _C.driver_loaded()
"""
    result = installation.run(code, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    assert result.returncode == 0, result.stderr


def test_import_loads_neither_dynamo_nor_inductor(installation: Installation) -> None:
    code = "import sys, torch; assert not {'torch._dynamo', 'torch._inductor'} & set(sys.modules)"
    assert installation.run(code).returncode == 0


def test_what_few_programs_use_is_imported_when_it_is_used(installation: Installation) -> None:
    code = """
import sys, torch, torch_mydev
LATE = {"torch_mydev.observe.compile_report", "torch_mydev.custom_call.ffi.operators"}
assert not LATE & set(sys.modules), LATE & set(sys.modules)
missing = [name for name in torch_mydev.__all__ if not hasattr(torch_mydev, name)]
missing += [name for name in torch_mydev.custom_call.__all__ if not hasattr(torch_mydev.custom_call, name)]
assert not missing, missing
assert set(torch_mydev.__all__) <= set(dir(torch_mydev))
try:
    torch_mydev.fallback_censsus
except AttributeError as error:
    assert "no attribute 'fallback_censsus'" in str(error), error
else:
    raise AssertionError("any name was found")
assert str(torch.ops.mydev_ffi.call.default) == "mydev_ffi.call.default"
"""
    result = installation.run(code)
    assert result.returncode == 0, result.stderr


# --- a build that cannot work -----------------------------------------------------------------------------------------


def break_library(installation: Installation) -> None:
    library = linked_library(installation.libraries, "mydev_runtime")
    installation.replace(str(library), b"not a library")


def remove_library(installation: Installation) -> None:
    linked_library(installation.libraries, "mydev_kernels").unlink()


def remove_extension(installation: Installation) -> None:
    for suffix in EXTENSION_SUFFIXES:
        (installation.torch_part / f"_C{suffix}").unlink(missing_ok=True)


def remove_native_part(installation: Installation) -> None:
    remove_extension(installation)
    shutil.rmtree(installation.package / "lib")


def damage_build_info(installation: Installation) -> None:
    installation.replace(str(installation.torch_part / "build_info.json"), b"{")


def build_with_other_torch(installation: Installation) -> None:
    installation.torch_part.rename(installation.package / "lib" / "torch-2.12")
    # Loading it would crash; the check must come first.
    break_library(installation)


def install_other_mydev(installation: Installation) -> None:
    installation.replace(str(installation.libraries / "version.py"), b"__version__ = '0.0.9'")


def keep_libraries_of_other_version(installation: Installation) -> None:
    info = installation.libraries / "lib" / "build_info.json"
    installation.replace(str(info), b'{"version": "0.0.9"}')


def install_other_backend(installation: Installation) -> None:
    installation.add_backend("another")


def break_python_part(installation: Installation) -> None:
    installation.replace("device/stream.py", b"raise RuntimeError('broken on purpose')\n")


BREAKAGES = [
    pytest.param(break_library, "cannot be loaded", id="broken library"),
    pytest.param(remove_library, "cannot be loaded", id="missing library"),
    pytest.param(remove_extension, "was built for Python", id="missing extension"),
    pytest.param(remove_native_part, "is missing", id="never built"),
    pytest.param(damage_build_info, "is damaged", id="damaged build info"),
    pytest.param(build_with_other_torch, "was built with torch 2.12, but", id="other torch"),
    pytest.param(install_other_mydev, "and mydev 0.0.9 is installed: pip install mydev==", id="other mydev"),
    pytest.param(keep_libraries_of_other_version, "mydev/lib of 0.0.9; build it", id="other libraries"),
    pytest.param(install_other_backend, "another backend, 'another'", id="slot taken"),
    pytest.param(break_python_part, "broken on purpose", id="broken Python part"),
]


@pytest.mark.parametrize(("break_it", "explanation"), BREAKAGES)
def test_import_torch_survives_with_one_warning(installation: Installation, break_it: object, explanation: str) -> None:
    assert callable(break_it)
    break_it(installation)
    result = installation.run("import torch; print(torch.ones(2).sum().item())")
    assert result.returncode == 0, result.stderr
    assert "2.0" in result.stdout
    assert result.stderr.count("Warning") == 1, result.stderr
    assert explanation in result.stderr
    assert "not available in this process" in result.stderr


@pytest.mark.parametrize(("break_it", "explanation"), BREAKAGES)
@pytest.mark.parametrize("before", ["", "import torch; "], ids=["alone", "after torch"])
def test_import_by_name_raises_the_explanation(
    installation: Installation, break_it: object, explanation: str, before: str
) -> None:
    assert callable(break_it)
    break_it(installation)
    code = f"""
{before}
try:
    import torch_mydev
except ImportError as error:
    print("explained:", error)
"""
    result = installation.run(code)
    assert result.returncode == 0, result.stderr
    assert "explained:" in result.stdout
    assert explanation in result.stdout
    # torch's own import warns when it comes first; importing us by name does not warn and raise both.
    assert result.stderr.count("Warning") == (1 if before else 0), result.stderr


def test_import_by_name_raises_with_autoload_off(installation: Installation) -> None:
    break_library(installation)
    result = installation.run("import torch_mydev", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.returncode == 1
    assert "cannot be loaded" in result.stderr


def test_torch_can_be_imported_again_after_the_explanation(installation: Installation) -> None:
    break_library(installation)
    code = """
for _ in range(2):
    try:
        import torch_mydev
    except ImportError:
        pass
import torch
print(torch.ones(2).sum().item())
"""
    result = installation.run(code)
    assert result.returncode == 0, result.stderr
    assert "2.0" in result.stdout
