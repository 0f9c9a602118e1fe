"""docs/bring-up.md: its commands run as they stand, from the first to the last, in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.checkout import ROOT, environment

pytestmark = pytest.mark.any_driver

# In place of an editable installation, which would go into this environment: the libraries and the package's metadata
# are made beside its sources, which are on Python's path. This environment has all that the build needs.
PIP = """#!/bin/sh
case "$*" in
  "install setuptools>=77 cmake") ;;
  "install --no-build-isolation -e .[test]") exec python setup.py --quiet build_py egg_info ;;
  *) exec python -m pip --quiet "$@" ;;
esac
"""


@pytest.mark.slow
def test_the_page_leads_to_a_trained_model(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "bring-up.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10
    if find_spec("jax") is None:
        blocks = [block for block in blocks if "JAX_PLATFORMS" not in block]
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "pip").write_text(PIP)
    (tools / "pip").chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    packages = os.pathsep.join([environment()["PYTHONPATH"], str(tmp_path / "acme-torch")])
    # The package's own tests and the whole report have tests of their own.
    commands = "".join(blocks).replace("python -m pytest -q tests", "python -m pytest -q tests --collect-only")
    commands = commands.replace("report --html report", "report --html report --suites driver --share 1/20")
    result = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path,
        env=environment(PATH=path, PYTHONPATH=packages, MYDEV_DRIVER=""),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert result.stdout.count(" 0 failed, ") == 3
    assert "acme:0 is acme: loss 0.0" in result.stdout
    assert (tmp_path / "acme-torch" / "report" / "index.html").exists()
    assert list((tmp_path / "acme-torch" / "dist").glob("acme_torch-1.0-py3-none-*.whl"))
