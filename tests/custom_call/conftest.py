"""Fixtures that the tests of ``mydev kernels`` share."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import torch_mydev
from mydev.cli.kernels import actions
from support.checkout import ROOT

BUILD_EXAMPLE = ROOT / "examples" / "custom_calls" / "build_library.py"

Cli = Callable[..., tuple[int, str, str]]


RECORD = """
#include "mydev/custom_call.h"
static mydev_code entry(const mydev_frame* frame) { (void)frame; return MYDEV_OK; }
static const mydev_kernel record = {.struct_size = SIZE, .name = NAME, .CODE = (void*)entry};
static const mydev_kernel* const kernels[] = {&record};
static const mydev_library library = {.struct_size = TABLE_SIZE, .version_major = MAJOR, .name = "broken",
                                      .version = "1", .kernels = kernels, .num_kernels = COUNT};
MYDEV_EXPORT const mydev_library* QUERY(uint32_t major, uint32_t minor) { (void)major, (void)minor; return RESULT; }
"""
DEFINITIONS = {
    "SIZE": "sizeof(mydev_kernel)",
    "TABLE_SIZE": "sizeof(mydev_library)",
    "NAME": '"cli.kernel"',
    "CODE": "entry",
    "MAJOR": "1",
    "COUNT": "1",
    "QUERY": "mydev_custom_call_query",
    "RESULT": "&library",
}


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


@pytest.fixture
def compile_library(tmp_path: Path) -> Callable[..., Path]:
    """Compiles a library of one record; keyword arguments replace its definitions."""

    def build(*flags: str, extra: str = "", name: str = "library.so", **definitions: str) -> Path:
        source, target = tmp_path / "library.c", tmp_path / name
        source.write_text(RECORD + extra)
        defined = [f"-D{key}={value}" for key, value in {**DEFINITIONS, **definitions}.items()]
        include = f"-I{ROOT / 'csrc' / 'include'}"
        command = [
            "cc",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            include,
            *defined,
            "-o",
            str(target),
            str(source),
            *flags,
        ]
        subprocess.run(command, check=True)
        return target

    return build
