"""Kernels that a driver lists, as people see them: in ``mydev kernels list``, and from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from support.checkout import DRIVERS, environment

pytestmark = pytest.mark.any_driver


def listed(driver: str, *arguments: str, action: str = "list") -> str:
    command = [sys.executable, "-m", "mydev", "kernels", action, *arguments]
    result = subprocess.run(command, env=environment(MYDEV_DRIVER=driver), capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def rows(driver: str, *arguments: str) -> dict[str, dict[str, Any]]:
    infos = json.loads(listed(driver, "--json", *arguments))
    return {info["name"]: info for info in infos if "limits" in info}


def test_kernels_of_a_driver_are_shown_with_their_dtypes() -> None:
    lines = listed(str(DRIVERS / "wide_driver.so"), "matmul").splitlines()
    (line,) = [line for line in lines if "mydev.matmul" in line]
    assert "driver 'discrete'" in line
    assert "s8 s32 f32 f64 bf16 f8e4m3fn" in line


@pytest.mark.parametrize(
    ("driver", "says"),
    [(str(DRIVERS / "wide_driver.so"), "driver 'discrete' has its own, which takes s8 s32 f32 f64"), ("host", None)],
)
def test_the_description_of_a_built_in_kernel_tells_of_the_drivers_own(driver: str, says: str | None) -> None:
    lines = [line for line in listed(driver, "mydev.matmul", action="info").splitlines() if line.startswith("device")]
    assert [says in line for line in lines] == ([True] if says else [])


@pytest.mark.parametrize("command", [("include",), ("kernels", "list", "--all")])
def test_a_command_that_nobody_reads_ends_quietly(command: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "mydev", *command]
    result = subprocess.run(
        program, stdout=writing, stderr=subprocess.PIPE, env=environment(MYDEV_DRIVER="host"), text=True, check=False
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


def test_rows_say_what_a_record_takes() -> None:
    kernels = rows(str(DRIVERS / "partial_driver.so"))
    assert set(kernels) == {"conformance.scale", "conformance.fail"} | {
        f"mydev.{name}" for name in ("add", "mul", "relu", "copy", "fill", "sum", "matmul")
    }
    product = kernels["mydev.mul"]
    assert product["platform"] == "discrete"
    assert product["contract"]["kernel"] == "mydev.mul"
    assert product["limits"] == {"dtypes": ["f32"], "rank_max": None, "dense": True, "numbers": False, "operands": {}}
    assert kernels["conformance.scale"]["limits"]["dtypes"] == ["f32"]
    assert kernels["conformance.fail"]["limits"]["dtypes"] is None


def test_all_kernels_of_a_remote_device_are_its_drivers() -> None:
    assert len(rows("host:remote")) > 150


@pytest.mark.parametrize("driver", ["host", f"{DRIVERS}/discrete_driver_1_1.so"])
def test_a_driver_without_kernels_or_a_list_shows_none(driver: str) -> None:
    assert rows(driver) == {}
