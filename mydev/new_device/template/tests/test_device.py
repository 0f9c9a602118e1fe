"""Whether the driver keeps its promises, its kernels their contracts, and whether models train on it."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mydev import COMMAND

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch_mydev") is None, reason="torch_mydev is not installed")
JAX = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


def run(*command: str, **variables: str) -> str:
    """Returns the output of a command that sees no device but ACME's."""
    environment = {**os.environ, "MYDEV_DRIVER": "acme", **variables}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def conform(*arguments: str, **variables: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = shutil.which(COMMAND, path=path)
    assert command, f"the command '{COMMAND}' is not installed"
    return run(command, "conform", *arguments, **variables)


@pytest.mark.parametrize("options", ["acme:devices=2", "acme:blocking"])
def test_the_driver_keeps_its_promises(options: str) -> None:
    assert " 0 failed, " in conform("driver", "--timeout", "120", MYDEV_DRIVER=options)


def test_the_kernels_keep_their_contracts() -> None:
    printed = conform("kernels")
    assert all(f"mydev.{name}" in printed for name in ("relu", "add", "matmul"))


# [with compiler]
def test_the_compiler_makes_the_portable_kernels() -> None:
    # Without --share, and with --timeout 600, it tries all of them: half an hour.
    conform(
        "kernels", "--portable", "mydev.gelu", "mydev.softmax", "mydev.matmul", "--share", "1/8", "--timeout", "300"
    )


# [end]
@TORCH
def test_operators_of_torch_are_those_of_the_cpu() -> None:
    conform("operators", "add", "mm", "nn.functional.relu", "sum", "cat")


@TORCH
def test_a_model_trains_in_torch() -> None:
    assert "acme:0" in run(sys.executable, str(Path(__file__).parent / "train_torch.py"))


@JAX
def test_a_model_trains_in_jax() -> None:
    assert "acme:0" in run(sys.executable, str(Path(__file__).parent / "train_jax.py"), JAX_PLATFORMS="acme,cpu")
