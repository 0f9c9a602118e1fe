"""Commands: statistics of what the device was given to do, the report of a script, and errors of injected faults."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from support.checkout import DRIVERS
from torch_mydev import fallback_census

RunPython = Callable[..., subprocess.CompletedProcess[str]]


def rows_of(statistics: Any) -> dict[tuple[str, str], Any]:
    return {(row.kind, row.name): row for row in statistics.rows}


def module() -> Any:
    return torch.mydev  # type: ignore[attr-defined]


def test_statistics_count_launches_copies_and_bytes(device: torch.device) -> None:
    x = torch.ones(1000, device=device)
    with module().launch_statistics() as statistics:
        for _ in range(3):
            x.add_(1)
        x.cpu()
        module().synchronize()
    rows = rows_of(statistics)
    assert rows["launch", "mydev.add"].calls == 3
    assert rows["launch", "mydev.add"].bytes == 3 * 2 * 4000
    assert rows["copy", "copy to the host"].calls == 1
    assert rows["copy", "copy to the host"].bytes == 4000
    assert all(row.seconds > 0 and row.device == 0 for row in statistics.rows)
    assert statistics.total_calls == sum(row.calls for row in statistics.rows)
    assert "mydev.add" in str(statistics)


def test_statistics_count_the_block_alone(device: torch.device) -> None:
    x = torch.ones(10, device=device)
    with module().launch_statistics() as outer:
        x.add_(1)
        module().synchronize()
        with module().launch_statistics() as inner:
            x.mul_(2)
            module().synchronize()
        x.add_(1)
        module().synchronize()
    x.add_(1)
    assert set(rows_of(inner)) == {("launch", "mydev.mul")}
    assert rows_of(outer)["launch", "mydev.add"].calls == 2
    assert module().launch_statistics().rows == []


def test_statistics_count_kernels_of_the_cpu(device: torch.device) -> None:
    x = torch.randn(100, device=device)
    with module().launch_statistics() as statistics, fallback_census() as census:
        torch.special.bessel_j0(x)
    assert census.total_calls == 1
    row = rows_of(statistics)["host call", "aten::special_bessel_j0"]
    assert row.calls == 1
    assert row.seconds > 0


@pytest.mark.host_access
def test_statistics_count_compiled_graphs(device: torch.device) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x * 2 + 1).relu())
    x = torch.randn(100, device=device)
    compiled(x)
    with module().launch_statistics() as statistics:
        compiled(x)
    assert rows_of(statistics)["host call", "compiled graph"].calls == 1


def test_a_block_that_does_nothing(device: torch.device) -> None:
    with module().launch_statistics() as statistics:
        pass
    assert statistics.total_calls == 0
    assert str(statistics) == "the device was given nothing to do"
    assert json.loads(statistics.to_json()) == []


def test_the_census_names_the_kernel_and_what_copies_took(run_python: RunPython) -> None:
    program = """
import torch, torch_mydev
x = torch.randn(1000, device="mydev")
with torch_mydev.fallback_census() as census:
    torch.special.bessel_j0(x)
(row,) = census.rows
assert row.kernel == "", row
assert 0 < row.copy_seconds < row.seconds, row
assert row.bytes_copied == 8000, row
from torch_mydev.observe.fallback import FallbackRow
kernels = {
    "aten::_softmax.out": "mydev.softmax",
    "aten::addmm": "mydev.matmul",
    "aten::nll_loss_forward": "mydev.nll_loss",
    "aten::_log_softmax_backward_data": "mydev.log_softmax_backward",
    "mydev.sort": "mydev.sort",
}
for op, kernel in kernels.items():
    assert FallbackRow(op, 1, 0, 0.0, 0.0, "", "").kernel == kernel, op
"""
    result = run_python(program, MYDEV_DRIVER="host:remote")
    assert result.returncode == 0, result.stderr


@pytest.mark.any_driver
def test_a_driver_without_kernels_fills_by_itself(run_python: RunPython) -> None:
    program = """
import torch, torch_mydev
with torch_mydev.fallback_census() as census, torch.mydev.launch_statistics() as statistics:
    x = torch.zeros(4, 6, device="mydev").t()
    x.fill_(3.5)
    dtypes = (torch.bool, torch.int16, torch.bfloat16, torch.complex128)
    numbers = [torch.full((5,), 7, dtype=dtype, device="mydev") for dtype in dtypes]
assert census.total_calls == 0, census
assert all(row.kind == "fill" for row in statistics.rows), statistics
assert x.cpu().eq(3.5).all()
for number in numbers:
    assert number.cpu().eq(torch.full((5,), 7, dtype=number.dtype)).all()
strided = torch.zeros(6, device="mydev")
strided[::2].fill_(1)
assert strided.cpu().tolist() == [1, 0, 1, 0, 1, 0]
try:
    torch.zeros(3, dtype=torch.uint8, device="mydev").fill_(300)
except RuntimeError as error:
    assert "without overflow" in str(error)
else:
    raise AssertionError("300 is no uint8")
"""
    result = run_python(program, MYDEV_DRIVER=str(DRIVERS / "discrete_driver.so"))
    assert result.returncode == 0, result.stderr


# --- the report -----------------------------------------------------------------------------------------------------

SCRIPT = """
import sys, torch
x = torch.ones(100, device="mydev")
print(float((x * 2).sum()), sys.argv[1:], __name__)
torch.special.bessel_j0(x)
sys.exit(int(sys.argv[1]))
"""


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mydev", "report", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_report_follows_the_scripts_output(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = report(str(script), "3", "--flag")
    assert result.returncode == 3, result.stderr
    assert result.stdout == "200.0 ['3', '--flag'] __main__\n"
    assert "mydev.mul" in result.stderr
    assert "aten::special_bessel_j0" in result.stderr


@pytest.mark.slow
def test_a_report_as_json(tmp_path: Path) -> None:
    script, target = tmp_path / "script.py", tmp_path / "report.json"
    script.write_text(SCRIPT)
    result = report("--json", str(target), str(script), "0")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    found = json.loads(target.read_text())
    assert {"mydev.mul", "mydev.sum"} <= {row["name"] for row in found["commands"]}
    assert "aten::special_bessel_j0" in {row["op"] for row in found["fallbacks"]}


def test_a_report_of_a_script_that_fails(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text('import torch\ntorch.ones(3, device="mydev")\nraise KeyError("lost")\n')
    result = report(str(script))
    assert result.returncode == 1
    assert result.stderr.startswith(
        f'Traceback (most recent call last):\n  File "{script}", line 3, in <module>\n'
        "    raise KeyError(\"lost\")\nKeyError: 'lost'\n"
    )
    assert "fell back" in result.stderr


def test_a_report_of_nothing() -> None:
    result = report("nowhere.py")
    assert result.returncode == 2
    assert "there is no script 'nowhere.py'" in result.stderr


def test_a_report_without_a_script() -> None:
    result = report()
    assert result.returncode == 2
    assert result.stderr.endswith("the following arguments are required: script\n")


# --- injected faults ------------------------------------------------------------------------------------------------

STEPS = """
import torch

def step(x):
    y = x * 2
    return float(y.cpu().sum())

x = torch.ones(1000, device="mydev")
torch.mydev.synchronize()
errors = []
for _ in range(6):
    try:
        assert step(x) == 2000.0
    except RuntimeError as error:
        errors.append(error)
(error,) = errors
print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("host:faults=launch@4", ["RuntimeError injected fault in launch number 4 [INTERNAL in mydev.mul("]),
        ("host:async,faults=launch@4", ["[INTERNAL in mydev.mul(out f32[1000]", "launched at <string>:5 in step"]),
        ("host:faults=copy@2", ["AcceleratorError copy to the host of 4000 bytes from 0x", "injected fault in copy"]),
        (
            "host:async,faults=copy@2",
            [
                "AcceleratorError injected fault in copy number 2 [INTERNAL in work of stream 0 on device mydev:0]",
                "\n  copy to the host of 4000 bytes from 0x",
                "submitted at <string>:6 in step",
            ],
        ),
        ("host:remote,async,guarded,faults=3:copy@2", ["AcceleratorError injected fault in copy number 2"]),
        ("host:remote,async,guarded,faults=3:launch@4", ["[INTERNAL in mydev.mul(", "<string>:5 in step"]),
    ],
)
def test_an_injected_fault_is_reported_once_and_work_goes_on(
    driver: str, words: list[str], run_python: RunPython
) -> None:
    result = run_python(STEPS, fresh=True, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stderr
    for text in words:
        assert text in result.stdout


def test_memory_that_is_refused_once_is_asked_for_again(run_python: RunPython) -> None:
    program = "import torch, torch_mydev; print(torch.ones(3, device='mydev').sum().item())"
    result = run_python(program, MYDEV_DRIVER="host:faults=alloc@1")
    assert result.stdout == "3.0\n", result.stderr


def test_a_seed_that_is_no_number(run_python: RunPython) -> None:
    result = run_python("import torch, torch_mydev; torch.ones(3, device='mydev')", MYDEV_DRIVER="host:faults=soon")
    assert result.returncode != 0
    assert "option 'faults=soon' of the host driver: 'soon' is not [SEED]" in result.stderr
