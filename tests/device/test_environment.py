"""Environment variables whose value does not fit, and drivers that do not start: one line, the same on each way in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.checkout import DRIVERS, KERNELS, ROOT, environment
from support.installation import Installation

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]

NO_INTEGRATION = (
    "there is no integration no; there are accelerate, flex_attention, lightning, safetensors, transformers"
)
#: A variable, a value, and what is said of it.
MISFITS = [
    ("MYDEV_FALLBACK", "ERROR", "it takes allow|warn|error"),
    ("MYDEV_FALLBACK_OPS", "garbage", "it takes operator=mode with ',' between, where a mode is allow|warn|error"),
    (
        "MYDEV_FALLBACK_OPS",
        "aten::srot=error",
        "there is no operator aten::srot; did you mean aten::sort or aten::sqrt or aten::sqrt_?",
    ),
    ("MYDEV_INTEGRATIONS", "no", NO_INTEGRATION),
    ("MYDEV_INTEGRATIONS", "lightening,off", "there is no integration lightening; did you mean lightning?"),
    ("MYDEV_INTEGRATIONS", "Accelerate", "it takes all|off, or names of integrations with ',' between"),
    ("MYDEV_ISA", "sse", "it takes auto|baseline|avx2|avx512"),
    (
        "MYDEV_DRIVER",
        "hots",
        (
            "it takes 'host', 'opencl', 'cuda', the name of an installed package's device or the path of a driver's "
            "shared object, then ':option,option...', after 'validate:' to check it"
        ),
    ),
    ("MYDEV_CUSTOM_CALLS", "kernels.so", "it takes absolute paths with ':' between"),
    ("MYDEV_CUSTOM_CALL_TIMEOUT", "soon", "it takes seconds from 0 to 1e9, 0 for no limit"),
]
EACH_MISFIT = pytest.mark.parametrize(("variable", "value", "says"), MISFITS)

IMPORT_AND_USE = """
IMPORTS
print(torch.device("mydev", 0), torch.mydev.is_available(), torch.mydev.device_count())
for use in (lambda: torch.ones(2, device="mydev"), lambda: torch.ones(2).to("mydev"), torch.mydev.init):
    try:
        use()
    except RuntimeError as error:
        print(error)
import torch_mydev
print(torch_mydev.fallback_census().total_calls, (torch.ones(2) + 1).sum().item())
"""


def line_of(variable: str, value: str, says: str) -> str:
    return f"{variable}='{value}' is not valid{';' if says.startswith('it takes') else ':'} {says}"


@EACH_MISFIT
@pytest.mark.parametrize("imports", ["import torch", "import torch_mydev, torch"])
def test_imports_warn_and_the_first_use_of_the_device_raises(
    tmp_path: Path, variable: str, value: str, says: str, imports: str
) -> None:
    line = line_of(variable, value, says)
    result = Installation(tmp_path).run(IMPORT_AND_USE.replace("IMPORTS", imports), **{variable: value})
    assert result.stdout.splitlines() == ["mydev:0 False 0", line, line, line, "0 4.0"], result.stderr
    assert result.stderr.count("Warning") == 1
    assert f"Warning: the device 'mydev' is not available in this process: {line}\n" in result.stderr


@EACH_MISFIT
@pytest.mark.parametrize("command", [["kernels", "list"], ["doctor"]], ids=["kernels", "doctor"])
def test_commands_say_the_same(variable: str, value: str, says: str, command: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mydev", *command],
        env=environment(**{variable: value}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    output = result.stdout + result.stderr
    assert line_of(variable, value, says) in output
    assert "Traceback" not in output
    assert "frame #" not in output


# --- doubts, which are warnings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("MYDEV_DRVIER", "host", "unknown environment variable MYDEV_DRVIER; did you mean MYDEV_DRIVER?"),
        (
            "MYDEV_CUSTOM_CALLS",
            "/no/such.so",
            "MYDEV_CUSTOM_CALLS names /no/such.so, which is not loaded: no such file",
        ),
    ],
)
@pytest.mark.parametrize("imports", ["import torch", "import torch_mydev, torch", "import torch, torch_mydev"])
def test_doubts_are_one_warning(tmp_path: Path, imports: str, variable: str, value: str, says: str) -> None:
    code = f"{imports}\nprint(torch.ones(2, device='mydev').sum().item())"
    result = Installation(tmp_path).run(code, **{variable: value})
    assert result.stdout == "2.0\n", result.stderr
    assert result.stderr.count("Warning") == 1
    assert f"Warning: {says}\n" in result.stderr


def test_a_library_that_does_not_load_is_one_warning(run_python: Run, no_shared_object: Path) -> None:
    code = "import torch, torch_mydev\nfor _ in range(2): torch_mydev.kernels()"
    result = run_python(code, fresh=True, MYDEV_CUSTOM_CALLS=str(no_shared_object))
    assert result.stderr.count("Warning") == 1
    assert f"MYDEV_CUSTOM_CALLS names {no_shared_object}, which is not loaded: " in result.stderr


def test_an_operators_name_without_an_overload_means_all_of_them(run_python: Run) -> None:
    code = "import torch, torch_mydev\ntorch.ones(2, device='mydev').median(0)"
    result = run_python(code, fresh=True, MYDEV_FALLBACK_OPS="aten::median=error")
    assert "NotImplementedError: aten::median.dim_values has no kernel" in result.stderr


# --- drivers that do not start ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def no_shared_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver") / "text.so"
    path.write_text("not an ELF file")
    return path


BROKEN = DRIVERS / "broken_driver.so"
FIRST_USES = {
    "empty": "torch.empty(1, device='mydev')",
    "to": "torch.ones(1).to('mydev')",
    "init": "torch.mydev.init()",
    "stream": "torch.mydev.current_stream()",
    "memory": "torch.mydev.mem_get_info()",
}
DEFECTS = {
    "missing": ("/no/such/driver.so", {}, "driver '/no/such/driver.so': no such file"),
    "text": ("{text}", {}, "cannot be loaded"),
    "no driver": (str(KERNELS / "xla_kernels.so"), {}, "is not a driver: it does not export"),
    "version": (str(BROKEN), {"BROKEN_DRIVER_DEFECT": "version"}, "is built for version 2.2 of mydev/driver.h"),
    "initialize": (f"{BROKEN}:fail=initialize", {}, "initialize fails on request"),
    "count": (f"{BROKEN}:fail=device_count", {}, "counting its devices failed: device_count fails on request"),
    "no devices": (f"{BROKEN}:devices=0", {}, "finds no hardware"),
    "option": ("host:colour=red", {}, "colour"),
}


def test_a_driver_in_this_folder_wants_its_path(run_python: Run, no_shared_object: Path) -> None:
    code = f"import os; os.chdir({str(no_shared_object.parent)!r})\nimport torch\ntorch.ones(1, device='mydev')"
    result = run_python(code, fresh=True, MYDEV_DRIVER=no_shared_object.name)
    assert "for the file in this folder write ./text.so" in result.stderr


@pytest.mark.parametrize("use", FIRST_USES)
@pytest.mark.parametrize("defect", DEFECTS)
def test_driver_that_does_not_start_is_reported_in_one_line(
    run_python: Run, no_shared_object: Path, defect: str, use: str
) -> None:
    driver, variables, says = DEFECTS[defect]
    code = f"import torch, torch_mydev\nprint(torch.mydev.is_available())\n{FIRST_USES[use]}"
    result = run_python(code, MYDEV_DRIVER=driver.format(text=no_shared_object), **variables)
    assert result.stdout == "False\n"
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if not line.startswith(" ")]
    assert lines[0] == "Traceback (most recent call last):"
    assert len(lines) == 2, result.stderr
    assert lines[1].startswith("RuntimeError: ")
    assert says in lines[1]
