"""A vendor's package brings a driver, and the device has the vendor's name: in PyTorch, JAX and the commands.

Two names, one after the other, show that neither is written anywhere.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

from mydev import drivers
from mydev.drivers import DriverChoice
from pjrt.clients import require
from support import vendor
from support.checkout import DRIVERS, TESTS

pytestmark = pytest.mark.any_driver

CASES = TESTS / "drivers" / "vendor_cases.py"
# The first device has memory of its own and no kernels, as an accelerator on its first day; the second is the host.
ANSWERS = {
    "acme": f"{{'library': {str(vendor.DRIVER)!r}, 'options': 'devices=2', 'display_name': 'ACME X1'}}",
    "zorro": f"{{'library': {str(vendor.HOST_DRIVER)!r}, 'name': 'zorro'}}",
}
NAMES = pytest.mark.parametrize("name", ANSWERS)
STATE = """
import torch, torch_mydev
name = torch_mydev.device_name
print("device", name, getattr(torch, name).device_count())
"""
USE = f"{STATE}\nprint(torch.ones(3, device=name).sum().item())"


def warnings_of(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The warnings of a process that succeeded, each in its one line."""
    assert result.returncode == 0, result.stderr
    return re.findall(r"Warning: (.*)", result.stderr)


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    vendor.install(tmp_path, "acme", ANSWERS["acme"])
    return tmp_path


@pytest.fixture
def both(acme: Path) -> Path:
    vendor.install(acme, "zorro", ANSWERS["zorro"])
    return acme


# --- what has the name ------------------------------------------------------------------------------------------------


@cache
def outcomes(name: str, folder: Path) -> dict[str, str]:
    vendor.install(folder, name, ANSWERS[name])
    result = vendor.run(folder, CASES, name)
    assert warnings_of(result) == []
    outcome: dict[str, str] = json.loads(result.stdout.splitlines()[-1])
    return outcome


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vendors")


@pytest.mark.slow
@pytest.mark.parametrize("case", re.findall(r"^def (case_\w+)", CASES.read_text(), re.MULTILINE))
@NAMES
def test_the_device_has_the_name_in_torch(folders: Path, name: str, case: str) -> None:
    outcome = outcomes(name, folders / name)[case]
    assert not outcome, outcome


@pytest.mark.slow
@NAMES
def test_the_platform_has_the_name_in_jax(tmp_path: Path, name: str) -> None:
    require("jax", "jax")
    vendor.install(tmp_path, name, ANSWERS[name])
    code = f"""
import sys
import jax, numpy as np
from pjrt_mydev import device_name
devices = jax.devices()
assert {{device.platform for device in devices}} == {{device_name()}} == {{{name!r}}}, devices
assert str(devices[0]).startswith("{name}:0"), devices
np.testing.assert_allclose(jax.jit(lambda x: (x @ x.T).sum())(np.ones((3, 4), np.float32)), 36)
assert "{name} with driver " in devices[0].client.platform_version, devices[0].client.platform_version
assert "torch" not in sys.modules
"""
    result = vendor.run(tmp_path, "-c", code, JAX_PLATFORMS=name)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_jax_and_torch_share_the_device(acme: Path) -> None:
    require("jax", "jax")
    code = (
        "import torch, torch_mydev.jax as j; x = j.to_jax(torch.ones(3).acme()); print(x.platform(), j.from_jax(x + 1))"
    )
    result = vendor.run(acme, "-c", code)
    assert "acme tensor([2., 2., 2.], device='acme:0')" in result.stdout, result.stderr


@pytest.mark.slow
def test_the_commands_say_the_name(acme: Path) -> None:
    doctor = vendor.run(acme, "-m", "mydev", "doctor")
    assert re.search(r"acme:1 .*\n", doctor.stdout), doctor.stdout
    assert f"ACME X1, by acme-torch 1.2: {vendor.DRIVER}:devices=2" in doctor.stdout
    suite = vendor.run(acme, "-m", "mydev", "conform", "driver", "loads", "--json")
    assert json.loads(suite.stdout)["driver"] == "acme", suite.stderr
    (acme / "script.py").write_text("import torch\nprint(torch.ones(3, device='acme').sort().values.device)\n")
    report = vendor.run(acme, "-m", "mydev", "report", "script.py")
    assert report.stdout == "acme:0\n", report.stderr


# --- the choice -------------------------------------------------------------------------------------------------------


def choose(folder: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> DriverChoice:
    """The choice of a process for which the folder's packages are installed."""
    monkeypatch.syspath_prepend(folder)
    for module in folder.glob("*.py"):  # another test may have imported one of the same name
        monkeypatch.delitem(sys.modules, module.stem, raising=False)
    return drivers.choose(variable)


@pytest.mark.parametrize(
    ("variable", "device", "driver"),
    [
        ("acme", "acme", f"{vendor.DRIVER}:devices=2"),
        ("acme:devices=3", "acme", f"{vendor.DRIVER}:devices=3"),
        ("acme:", "acme", f"{vendor.DRIVER}"),
        ("validate:acme", "acme", f"validate:{vendor.DRIVER}:devices=2"),
        ("zorro", "zorro", f"{vendor.HOST_DRIVER}"),
        ("zorro:async", "zorro", f"{vendor.HOST_DRIVER}:async"),
        ("host:devices=2", "mydev", ""),
        ("validate:host", "mydev", ""),
        (f"{vendor.DRIVER}:devices=2", "mydev", ""),
    ],
)
def test_the_variable_chooses(
    both: Path, variable: str, device: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose(both, variable, monkeypatch)
    assert (choice.device_name, choice.driver, choice.problem) == (device, driver, "")


@pytest.mark.parametrize(
    ("variable", "platforms", "device"),
    [
        ("JAX_PLATFORMS", "zorro,cpu", "zorro"),
        ("PJRT_DEVICE", "ACME", "acme"),
        ("JAX_PLATFORMS", "cpu", "mydev"),
        ("JAX_PLATFORMS", "acme,zorro", "mydev"),
    ],
)
def test_a_platform_chooses_among_packages(
    both: Path, variable: str, platforms: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, platforms)
    choice = choose(both, "", monkeypatch)
    assert choice.device_name == device
    assert ("choose by" in choice.problem) == (device == "mydev")


def test_a_name_that_no_package_brings_is_reported_with_those_that_there_are(
    both: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose(both, "azme:devices=2", monkeypatch)
    assert choice == DriverChoice(problem=choice.problem)
    assert choice.problem == (
        "MYDEV_DRIVER='azme:devices=2' is not valid: there is no driver 'azme'; there are 'acme', 'zorro', 'host', "
        "'opencl', 'cuda', and paths, which have a '/' or end in .so"
    )


def test_the_one_package_is_chosen(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = choose(acme, "", monkeypatch)
    assert choice == DriverChoice("acme", "ACME X1", "acme-torch 1.2", f"{vendor.DRIVER}:devices=2")


@pytest.mark.slow
def test_one_of_two_packages_runs_under_the_validation_layer(both: Path) -> None:
    result = vendor.run(both, "-c", USE, MYDEV_DRIVER="validate:acme:devices=3")
    assert warnings_of(result) == []
    assert "device acme 3\n3.0\n" in result.stdout


def test_two_packages_without_a_choice_are_one_warning_and_no_device(both: Path) -> None:
    result = vendor.run(both, "-c", STATE)
    (warning,) = warnings_of(result)
    assert (
        "'mydev' is not available in this process: 2 packages bring a driver: acme (acme-torch 1.2), zorro " in warning
    )
    assert "; choose by MYDEV_DRIVER=acme or MYDEV_DRIVER=zorro, or MYDEV_DRIVER=host for neither" in warning
    assert "device mydev 0\n" in result.stdout


@pytest.mark.slow
def test_a_program_may_choose_for_jax(both: Path) -> None:
    require("jax", "jax")
    code = "import jax, pjrt_mydev; pjrt_mydev.initialize('acme:devices=3'); print(jax.devices('acme'))"
    assert vendor.run(both, "-c", code).stdout.count("acme:") == 3


@pytest.mark.slow
def test_another_name_for_jax_comes_too_late(acme: Path) -> None:
    require("jax", "jax")
    result = vendor.run(acme, "-c", "import torch, pjrt_mydev; pjrt_mydev.initialize('host')")
    assert "driver 'host' comes too late: this process calls its device 'acme' already" in result.stderr


@pytest.mark.slow
def test_a_child_process_chooses_the_same(acme: Path) -> None:
    (acme / "script.py").write_text("""
import torch
from torch.multiprocessing import get_context
if __name__ == "__main__":
    torch.ones(1).acme()
    with get_context("spawn").Pool(1) as pool:
        print(pool.apply(eval, ("__import__('torch').ones(2, device='acme').sum().item()",)))
""")
    result = vendor.run(acme, "script.py")
    assert result.stdout == "2.0\n", result.stderr


# --- what the package adds --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_module_that_fails_is_one_warning(tmp_path: Path) -> None:
    vendor.install(tmp_path, "acme", f"{{'library': {str(vendor.DRIVER)!r}, 'torch_module': 'acme_added'}}")
    (tmp_path / "acme_added.py").write_text("1 / 0")
    result = vendor.run(tmp_path, "-c", USE)
    reason = "its module 'acme_added' fails, and 'acme' goes without: ZeroDivisionError: division by zero"
    assert warnings_of(result) == [f"acme-torch 1.2: {reason}"]
    assert "device acme 1\n3.0\n" in result.stdout


# --- what is wrong ----------------------------------------------------------------------------------------------------

DRIVER = repr(str(vendor.DRIVER))


@pytest.mark.parametrize(
    ("name", "answer", "problem"),
    [
        ("cuda", f"{{'library': {DRIVER}}}", "PyTorch or JAX has the name 'cuda'; call the device otherwise"),
        ("xpu", f"{{'library': {DRIVER}}}", "PyTorch or JAX has the name 'xpu'; call the device otherwise"),
        ("gpu", f"{{'library': {DRIVER}}}", "PyTorch or JAX has the name 'gpu'; call the device otherwise"),
        ("x1", f"{{'library': {DRIVER}}}", "'x1' is no name for a device; take letters a to z and _"),
        ("acme", "1 / 0", "failed: ZeroDivisionError: division by zero"),
        ("acme", "exit(3)", "failed: SystemExit: 3"),
        ("acme", "'driver.so'", "gives str, and should give a dict with 'library', 'name', 'options', "),
        ("acme", "{}", "gives no 'library', the path of the driver"),
        ("acme", "{'library': 3}", "gives 3 for 'library', and should give text"),
        (
            "acme",
            f"{{'library': {DRIVER}, 'option': 'x'}}",
            "gives 'option', which is not known; there are 'lib",
        ),
        ("acme", f"{{'library': {DRIVER}, 'name': 'acne'}}", "calls the device 'acne'; give the entry point that name"),
        ("acme", "{'library': '/no/driver.so'}", "gives the driver /no/driver.so, which is not there; build it, or "),
    ],
)
def test_a_wrong_package_is_one_line(
    tmp_path: Path, name: str, answer: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor.install(tmp_path, name, answer)
    choice = choose(tmp_path, "", monkeypatch)
    assert choice == DriverChoice("acme" if name == "acme" else "mydev", problem=choice.problem)
    where = f"{name}-torch 1.2, entry point '{name} = {name}_torch:driver' of mydev.drivers"
    assert choice.problem.startswith(where)
    assert problem in choice.problem
    assert "\n" not in choice.problem


def test_a_wrong_package_is_one_warning_and_no_device(tmp_path: Path) -> None:
    vendor.install(tmp_path, "acme", "1 / 0")
    result = vendor.run(tmp_path, "-c", STATE)
    (warning,) = warnings_of(result)
    assert warning.startswith("the device 'acme' is not available in this process: acme-torch 1.2, entry point ")
    assert "device acme 0\n" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{}, {"MYDEV_DRIVER": "acme:devices=2"}], ids=["alone", "chosen"])
def test_the_first_use_of_the_device_tells_what_is_wrong_with_its_package(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    vendor.install(tmp_path, "acme", "1 / 0")
    result = vendor.run(tmp_path, "-c", "import torch; torch.ones(2, device='acme')", **variables)
    assert result.stderr.splitlines()[-1] == (
        "RuntimeError: acme-torch 1.2, entry point 'acme = acme_torch:driver' of mydev.drivers failed: "
        "ZeroDivisionError: division by zero"
    )


def test_names_that_torch_has_are_refused() -> None:
    names = {name.lower() for name in torch._C._autograd.DeviceType.__members__ if name != "PrivateUse1"}
    assert names - set(drivers.TAKEN) == set()


@pytest.mark.slow
def test_a_name_of_torch_itself_leaves_torch_alone(tmp_path: Path) -> None:
    vendor.install(tmp_path, "relu", f"{{'library': {DRIVER}}}")
    (warning,) = warnings_of(vendor.run(tmp_path, "-c", "import torch; torch.relu(torch.ones(1))"))
    assert "torch or torch.Tensor has an attribute 'relu' already; relu-torch 1.2 must call it otherwise" in warning


@pytest.mark.slow
def test_an_entry_point_that_imports_torch_is_one_warning(tmp_path: Path) -> None:
    vendor.install(tmp_path, "acme", f"{{'library': {DRIVER}}}", before="import torch")
    result = vendor.run(tmp_path, "-c", "import acme_torch, torch; print(torch.ones(2).sum().item())")
    (warning,) = warnings_of(result)
    assert "entry point 'acme = acme_torch:driver' of mydev.drivers failed: " in warning
    assert result.stdout == "2.0\n"


@pytest.mark.slow
def test_a_driver_of_another_major_version_is_one_line_at_the_first_use(tmp_path: Path) -> None:
    vendor.install(tmp_path, "acme", f"{{'library': {str(DRIVERS / 'broken_driver.so')!r}}}")
    code = "import torch\ntry: torch.ones(1, device='acme')\nexcept RuntimeError as error: print(error)"
    result = vendor.run(tmp_path, "-c", code, BROKEN_DRIVER_DEFECT="version")
    assert warnings_of(result) == []
    assert re.fullmatch(r"driver '.*broken_driver.so' is built for version .*\n", result.stdout)


def test_two_packages_with_one_name_are_one_line(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vendor.install(acme, "acme", ANSWERS["acme"], package="acme-next")
    problem = "acme-next 1.2 and acme-torch 1.2 both bring a device 'acme'; uninstall one of them"
    assert choose(acme, "acme", monkeypatch).problem == problem


@pytest.mark.slow
def test_jax_goes_on_without_the_device(tmp_path: Path) -> None:
    require("jax", "jax")
    vendor.install(tmp_path, "acme", "1 / 0")
    result = vendor.run(tmp_path, "-c", "import jax; print(jax.devices()[0].platform)")
    assert result.stdout == "cpu\n", result.stderr
    assert "failed: ZeroDivisionError: division by zero" in result.stderr
