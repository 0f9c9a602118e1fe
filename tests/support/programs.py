"""The programs in examples/ecosystem: run in this process, or started as a user starts them."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from support.checkout import ROOT, TESTS, environment

PROGRAMS = ROOT / "examples" / "ecosystem"
SITE = TESTS / "ecosystem" / "site"

sys.modules.setdefault("torch_xla", None)  # type: ignore[arg-type]  # libraries would take tests/torch_xla for it
runpy.run_path(str(SITE / "sitecustomize.py"))  # for programs in this process


def program(name: str) -> Callable[..., dict[str, Any]]:
    """The ``run`` of a program."""
    run: Callable[..., dict[str, Any]] = runpy.run_path(str(PROGRAMS / f"{name}.py"))["run"]
    return run


def start(name: str, *arguments: str, launcher: tuple[str, ...] = (), **changes: str) -> tuple[dict[str, Any], str]:
    """Starts a program with Python, or with what stands between Python and it; gives its result and its stderr."""
    variables = environment(OMP_NUM_THREADS="1", **changes)
    variables["PYTHONPATH"] = f"{SITE}:{ROOT}"
    command = [sys.executable, *launcher, str(PROGRAMS / f"{name}.py"), *arguments]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    facts: dict[str, Any] = json.loads([line for line in result.stdout.splitlines() if line.startswith("{")][-1])
    return facts, result.stderr


def numbers(result: Any) -> list[float]:
    """The numbers in what a program gives, in their order."""
    if isinstance(result, dict):
        return [number for value in result.values() for number in numbers(value)]
    if isinstance(result, list):
        return [number for value in result for number in numbers(value)]
    return [result] if isinstance(result, int | float) and not isinstance(result, bool) else []


def assert_same(result: dict[str, Any], expected: dict[str, Any], **tolerance: float) -> None:
    """Whether a program's numbers are those of another run."""
    assert numbers(expected)
    torch.testing.assert_close(
        torch.tensor(numbers(result)),
        torch.tensor(numbers(expected)),
        **tolerance,  # type: ignore[arg-type]
    )


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
ACCELERATE = ("-m", "accelerate.commands.launch")
