"""tools/tag_wheel.py: which wheels are for other machines, from what auditwheel says of them."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from support.checkout import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "tag_wheel.py"))
OURS = ["libmydev_kernels.so.0.1", "libmydev_runtime.so.0.1"]
TORCH = ["libc10.so", "libgomp.so.1", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so"]


def report(libraries: list[str], tag: str = "manylinux_2_36_x86_64") -> dict[str, Any]:
    """The parts of auditwheel's report that are looked at."""
    return {"external_libs": dict.fromkeys(libraries), "sym_tag": tag}


@pytest.mark.parametrize("tag", ["manylinux_2_36_x86_64", "manylinux_2_28_aarch64"])
def test_tag_is_that_of_the_newest_symbols(tag: str) -> None:
    assert TOOL["platform_tag"]("torch_mydev", report([*TORCH, *OURS], tag)) == tag
    assert TOOL["platform_tag"]("mydev", report([], tag)) == tag


@pytest.mark.parametrize("library", ["libdnnl.so.3", "libtorch_cuda.so", "libgomp.so.2", "libmydev_host_driver.so"])
def test_library_that_neither_torch_nor_mydev_bring_is_refused(library: str) -> None:
    with pytest.raises(TOOL["CannotTag"], match=f"needs {library}, which"):
        TOOL["platform_tag"]("torch_mydev", report([*TORCH, *OURS, library]))


@pytest.mark.parametrize("library", ["libgomp.so.1", "libc10.so", "libmydev_runtime.so.0.1"])
def test_mydev_needs_no_library_of_others(library: str) -> None:
    with pytest.raises(TOOL["CannotTag"], match=f"needs {library}, which"):
        TOOL["platform_tag"]("mydev", report([library]))


def test_symbols_that_no_policy_has_are_refused() -> None:
    with pytest.raises(TOOL["CannotTag"], match="auditwheel says linux_x86_64"):
        TOOL["platform_tag"]("torch_mydev", report(TORCH, "linux_x86_64"))


@pytest.mark.parametrize("tag", ["manylinux_2_37_x86_64", "manylinux_2_39_aarch64", "manylinux_3_1_x86_64"])
@pytest.mark.parametrize("distribution", ["mydev", "torch_mydev"])
def test_newer_symbols_than_the_limit_are_refused(distribution: str, tag: str) -> None:
    with pytest.raises(TOOL["CannotTag"], match=f"needs the tag {tag}, which is newer than manylinux_2_36, the limit"):
        TOOL["platform_tag"](distribution, report([], tag))
