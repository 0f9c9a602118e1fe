"""A sample of the functions of JAX that jax_breadth.py compares between the device and JAX's CPU; it has them all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

BREADTH = Path(__file__).parent / "programs" / "jax_breadth.py"


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--x64"]], ids=["x32", "x64"])
def test_functions_give_what_the_cpu_gives(options: list[str]) -> None:
    require("jax", "jax==0.10.2")
    arguments = [str(BREADTH), "--part", f"{len(options)}/80", *options]
    code = f"import runpy, sys; sys.argv = {arguments!r}; runpy.run_path({str(BREADTH)!r}, run_name='__main__')"
    report = json.loads(output_of(code).splitlines()[-1])
    assert report["wrong"] == {}
    assert report["cases"] > 20
    assert report["refused"] < report["cases"] / 4
