"""What the tests of ``mydev kernels`` share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

import torch_mydev
from support.checkout import ROOT
from torch_mydev.cli.kernels import actions

BUILD_EXAMPLE = ROOT / "examples" / "custom_calls" / "build_library.py"

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs an action in this process: exit code, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = actions.run(arguments)
        except SystemExit as exit_:
            code = int(str(exit_.code))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def library() -> str:
    """The example's library, loaded."""
    spec = importlib.util.spec_from_file_location("build_custom_calls", BUILD_EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = str(module.build())
    torch_mydev.load_custom_calls(path)
    return path
