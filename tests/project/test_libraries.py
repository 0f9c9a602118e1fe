"""The installed libraries: under which names they lie, what these names promise, and what they export."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT
from torch_mydev import __version__

INSTALLED = sorted(path for package in ("mydev", "torch_mydev") for path in (ROOT / package / "lib").rglob("lib*.so*"))
#: Libraries that others of the package are linked with, in C++, whose interface is that of one minor version.
VERSIONED = ["collectives", "distributed", "kernels", "lowering", "program", "runtime", "stablehlo", "transport"]
#: Libraries that are loaded by the name of their file, or that users' handlers are linked with by a C interface.
PLAIN = [
    *("cuda_driver", "custom_call_status", "device_kernels", "host_driver", "host_kernels", "opencl_driver", "pjrt"),
    "xla_ffi",
]
#: Libraries that others use in C++, tests among these.
OFFERING = {"torch_mydev", "mydev_host_kernels", *(f"mydev_{name}" for name in VERSIONED)}
#: The name of what MYDEV_API marks: a class, a function or a variable.
MARKED = re.compile(r"(?:class|struct) MYDEV_API (\w+)|MYDEV_API [^;{}()]*?(\w+)(?:==)?(?:\(|;| =)")


def dynamic_section(path: Path) -> str:
    return subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout


def test_names_of_linked_libraries_tell_the_minor_version() -> None:
    minor = __version__.rpartition(".")[0]
    expected = {f"libmydev_{name}.so.{minor}" for name in VERSIONED} | {f"libtorch_mydev.so.{minor}"}
    expected |= {f"libmydev_{name}.so" for name in PLAIN} | {"libdnnl.so.3", "libgomp.so.1"}
    # One for each instruction set of the build, loaded by the name of its file; AVX-512 has that of AVX2.
    transforms = {path.name for path in INSTALLED if re.fullmatch(r"libmydev_fft_(baseline|avx2)\.so", path.name)}
    assert transforms
    assert sorted(path.name for path in INSTALLED) == sorted(expected | transforms)


@pytest.mark.parametrize("library", INSTALLED, ids=lambda path: path.name)
def test_a_library_lies_under_its_soname(library: Path) -> None:
    assert not library.is_symlink()  # a wheel has none: it would be another copy
    assert re.findall(r"\(SONAME\).*\[(.*)\]", dynamic_section(library)) == [library.name]


def test_make_demo_builds_all_that_it_installs() -> None:
    build = ROOT / "build" / "release"

    def ninja(*arguments: str) -> list[str]:
        command = [ROOT / ".venv" / "bin" / "ninja", "-C", build, "-t", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    script = (build / "cmake_install.cmake").read_text()
    blocks = re.findall(r'if\(CMAKE_INSTALL_COMPONENT STREQUAL "(?:mydev|torch)" .*?endif\(\)', script, re.DOTALL)
    installed = {name for block in blocks for name in re.findall(rf'"{build}/([^"]+)"', block)}
    made = installed & {line.partition(":")[0] for line in ninja("targets", "all")}
    assert "contracts.json" in made
    assert made - set(ninja("inputs", "build_torch")) == set()


@functools.cache
def marked_names() -> set[str]:
    headers = sorted((ROOT / "csrc").rglob("*.h"))
    return {name for path in headers for match in MARKED.findall(path.read_text()) for name in match if name}


def without_arguments(symbol: str) -> str:
    """The qualified name in a symbol, without the arguments of templates and functions."""
    depth, kept = 0, ""
    for letter in re.sub(r"operator(<=>|[<>]=?|->|\(\))", "operator", symbol):
        depth -= letter == ">"
        kept += letter if depth == 0 else ""
        depth += letter == "<"
    return kept.partition("(")[0]


@pytest.mark.parametrize("library", INSTALLED, ids=lambda path: path.name)
def test_a_library_exports_what_is_marked_and_nothing_else_of_ours(library: Path) -> None:
    command = ["nm", "-DC", "--defined-only", "--format=just-symbols", library]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [symbol for symbol in symbols if "mydev::" in without_arguments(symbol)]
    assert [symbol for symbol in ours if marked_names().isdisjoint(re.findall(r"\w+", without_arguments(symbol)))] == []
    assert bool(ours) == (library.name.partition(".")[0].removeprefix("lib") in OFFERING)
