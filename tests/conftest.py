"""Fixtures of the Python tests. MYDEV_DRIVER chooses the driver and its mode; tests pass in every mode of the host."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torch_mydev
from support import cached_compiler
from support.checkout import environment
from support.fork_server import ForkServer
from support.ranks import Ranks

pytest_plugins = ["support.selection", "support.progress", "support.skips", "fuzz.rounds"]
# The first is run in an environment of another torch: make test-torch-xla. The second has files that only look like
# tests of PyTorch and JAX, for tests/drivers/test_conform_upstream.py.
collect_ignore = ["torch_xla", "conformance/upstream"]


@pytest.fixture
def device() -> torch.device:
    """The device under test, without an index."""
    return torch.device(torch_mydev.device_name)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Nothing compiled or reported before the test, and nothing left after it."""
    torch._dynamo.reset()
    torch_mydev.reset_compile_report()
    yield
    torch._dynamo.reset()


@pytest.fixture
def kernel_sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the kernels that graphs become during the test."""
    from torch_mydev.compile.kernels.library import KernelLibrary

    seen: list[str] = []
    kernel = KernelLibrary.kernel

    def noted(library: KernelLibrary, name: str, counts: Any, numbers: str, source: str) -> Any:
        seen.append(source)
        return kernel(library, name, counts, numbers, source)

    monkeypatch.setattr(KernelLibrary, "kernel", noted)
    return seen


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    yield from _fork_server("torch")


@pytest.fixture(scope="session")
def compiler_server() -> Iterator[ForkServer]:
    yield from _fork_server("torch._inductor.compile_fx")


def _fork_server(module: str) -> Iterator[ForkServer]:
    server = ForkServer(module)
    yield server
    server.stop()


@pytest.fixture
def run_python(fork_server: ForkServer, compiler_server: ForkServer) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``code``, which imports torch and torch_mydev, in a child; keyword arguments are environment variables.

    The child is forked from a process that has imported torch, or the compiler with it, which takes a fraction of a
    start. With ``fresh`` it is an interpreter of its own: for what is about starting, exiting, or variables that torch
    reads as it is imported.
    """

    def run(code: str, fresh: bool = False, compiler: bool = False, **changes: str) -> subprocess.CompletedProcess[str]:
        variables = environment(**changes)
        if not fresh:
            return (compiler_server if compiler else fork_server).run(code, variables)
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def two() -> Iterator[Ranks]:
    """A process group of two processes."""
    yield from _ranks(2)


@pytest.fixture(scope="session")
def four() -> Iterator[Ranks]:
    """A process group of four processes."""
    yield from _ranks(4)


@pytest.fixture(params=["two", "four"])
def group(request: pytest.FixtureRequest) -> Ranks:
    """A process group of two processes, then one of four."""
    ranks: Ranks = request.getfixturevalue(request.param)
    return ranks


def _ranks(size: int) -> Iterator[Ranks]:
    group = Ranks(size)
    yield group
    group.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--compiled-operators",
        type=int,
        default=24,
        metavar="N",
        help="how many operators tests/conformance/test_compiled.py compiles, a second or two each",
    )
    parser.addoption(
        "--conformance-share",
        type=int,
        default=12,
        metavar="N",
        help="tests/conformance/test_breadth.py asks one in N of its questions; 1 asks all, for more samples each",
    )
    parser.addoption(
        "--conformance-remainder",
        type=int,
        default=0,
        metavar="R",
        help="which one in N of these questions: those whose names' CRC-32 leaves R",
    )
    parser.addoption(
        "--exits", type=int, default=10, metavar="N", help="how often tests/device/test_process.py ends a process"
    )
    parser.addoption("--minutes", type=float, help="how long each test of tests/fuzz runs, from a random seed on")
    parser.addoption("--seed", type=int, help="the seed that each test of tests/fuzz begins with")
    parser.addoption(
        "--ecosystem", action="store_true", help="also start the programs of examples/ecosystem: make test-ecosystem"
    )
    parser.addoption(
        "--cuda-kernels", action="store_true", help="compile portable kernels for each GPU, in all forms, not in a few"
    )
    parser.addoption(
        "--all-models", action="store_true", help="compile each model of tests/support/models.py, not three of them"
    )


def pytest_configure(config: pytest.Config) -> None:
    # Inductor compiles everything anew in each session, once for all workers; the C++ compiler does not.
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        directory = tempfile.TemporaryDirectory(prefix="mydev-inductor-", ignore_cleanup_errors=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = directory.name
        config.add_cleanup(directory.cleanup)
    os.environ.setdefault("MYDEV_KERNEL_GENERATION", "raise")  # no error of the generator goes unseen
    sys.modules.setdefault("torch_xla", None)  # type: ignore[arg-type]  # libraries would take tests/torch_xla for it
    cached_compiler.use()
    config.addinivalue_line("markers", "any_driver: about processes, files or packages, whatever the driver's mode")
    config.addinivalue_line("markers", "program: starts programs of users' libraries; needs --ecosystem")
    config.addinivalue_line("markers", "instruction_sets: compares those that the build has: make check builds all")
    config.addinivalue_line(
        "markers", "slow: takes several seconds; `make test` does not ask it (support/selection.py)"
    )
    config.addinivalue_line("markers", "host_access: about memory of the device that the host reaches")
    config.addinivalue_line("markers", "devices(n): needs at least n devices, as with MYDEV_DRIVER=host:devices=n")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("host_access") and not torch.mydev.get_device_properties(0).host_accessible:
        pytest.skip("needs memory that the host reaches")
    for mark in item.iter_markers("devices"):
        needed, present = mark.args[0], torch.accelerator.device_count()
        if present < needed:
            pytest.skip(f"needs {needed} devices, has {present}; MYDEV_DRIVER=host:devices={needed} gives them")
