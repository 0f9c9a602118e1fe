"""Programs that are partitioned for several devices compute what JAX's CPU computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

PROGRAMS = Path(__file__).with_name("jax_partitioned.py")


@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
@pytest.mark.parametrize("driver", ["host:devices=4", "host:remote,async,guarded,devices=4"])
def test_functions_of_arguments_in_parts(driver: str, partitioner: str) -> None:
    require("jax", "jax==0.10.2")
    require("optax", "optax==0.2.8")
    arguments = [str(PROGRAMS)] + ["--gspmd"] * (partitioner == "gspmd")
    code = f"import runpy, sys; sys.argv = {arguments}; sys.path.insert(0, {str(PROGRAMS.parent)!r})\n"
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    assert json.loads(output_of(code, driver).splitlines()[-1]) == {}
