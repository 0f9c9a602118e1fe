"""The command itself: its version, its help, and mistyped commands."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import torch_mydev
from mydev.cli import COMMANDS, main
from support.checkout import ROOT

pytestmark = pytest.mark.any_driver


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = int(str(exit_.code))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_version() -> None:
    command = [sys.executable, "-m", "mydev", "--version"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == f"mydev {torch_mydev.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",)], ids=str)
def test_help_names_every_command(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert all(re.search(rf"\n    {command.name}\s", out) for command in COMMANDS)


@pytest.mark.parametrize(
    ("words", "prog"),
    [(("report",), "mydev report"), (("kernels",), "mydev kernels"), (("kernels", "new"), "mydev kernels new")],
    ids=str,
)
def test_help_of_a_command(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], prog: str) -> None:
    code, out, _ = run(capsys, "help", *words)
    assert code == 0
    assert out.startswith(f"usage: {prog} [-h]")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("docter",), "there is no command 'docter'; did you mean doctor?"),
        (("help", "reprot"), "there is no command 'reprot'; did you mean report?"),
        (("kernels", "lsit"), "there is no command 'lsit'; did you mean list?"),
        (("conform", "kernel"), "there is no command 'kernel'; did you mean kernels?"),
        (("conform", "xyz"), "there is no command 'xyz'; choose from driver, kernels, operators, report, upstream"),
    ],
    ids=str,
)
def test_mistyped_command_is_reported_with_what_is_near(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], advice: str
) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.endswith(f": error: {advice}\n")
