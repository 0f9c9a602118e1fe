"""Programs that are partitioned for several devices compute what JAX's CPU computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

PROGRAMS = Path(__file__).parent / "programs" / "jax_partitioned.py"
DRIVERS = ["host:devices=4", "host:remote,async,guarded,devices=4,kernels=none"]


def run(program: Path, driver: str, *arguments: str, **variables: str) -> object:
    require("jax", "jax==0.10.2")
    require("optax", "optax==0.2.8")
    code = f"import runpy, sys; sys.argv = {[str(program), *arguments]}; sys.path.insert(0, {str(program.parent)!r})\n"
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    return json.loads(output_of(code, driver, **variables).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_functions_of_arguments_in_parts(driver: str, partitioner: str) -> None:
    assert run(PROGRAMS, driver, *["--gspmd"] * (partitioner == "gspmd")) == {}


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_sums_that_are_left_to_be_made(driver: str) -> None:
    flags = "--xla_force_host_platform_device_count=4"
    assert run(PROGRAMS.with_name("jax_unreduced.py"), driver, XLA_FLAGS=flags) == {}
