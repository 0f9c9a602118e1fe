"""Portable kernels through NVIDIA's compiler, for GPUs that are not here: each module that a frame needs compiles.

Nothing runs: the driver is csrc/cuda_driver on a stub of libcuda. A few forms of each kernel are compiled for one GPU;
with ``--cuda-kernels`` all forms, for two.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from mydev.cli.conform.suite import PROGRAM
from support.checkout import ROOT, environment
from support.cuda import cuda_driver, nvrtc_library

NVRTC = nvrtc_library()
CONTRACTS = json.loads((ROOT / "mydev" / "include" / "mydev" / "contracts.json").read_text())["contracts"]

pytestmark = [
    pytest.mark.any_driver,
    pytest.mark.slow,
    pytest.mark.skipif(NVRTC is None, reason="NVRTC is absent: requirements/cuda.txt"),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("kernel", [contract["kernel"] for contract in CONTRACTS])
    metafunc.parametrize("architecture", ["80", "90"] if metafunc.config.getoption("--cuda-kernels") else ["80"])


def test_a_kernel_compiles(kernel: str, architecture: str, pytestconfig: pytest.Config) -> None:
    assert NVRTC is not None
    share = "0/1" if pytestconfig.getoption("--cuda-kernels") else "1/11"
    result = subprocess.run(
        [PROGRAM, "portable_modules", "--case", kernel, "--share", share],
        env=environment(MYDEV_DRIVER=cuda_driver(NVRTC), CUDA_STUB_CAPABILITY=architecture),
        capture_output=True,
        text=True,
        check=False,
    )
    row = json.loads(result.stdout.splitlines()[-1])
    not_portable = row["messages"] == ["there is none"]
    assert row["status"] == ("skipped" if not_portable else "passed"), row["messages"]
