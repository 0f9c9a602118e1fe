"""Rules about the source itself: what may include what, where a name may stand, how long a file may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.checkout import ROOT

CPP_SUFFIXES = {".h", ".cpp", ".c"}
TORCH_INCLUDE = re.compile(r'#\s*include\s*[<"](torch|ATen|c10|caffe2|pybind11|Python\.h)')
# Which layers' headers each layer may include, from the top down.
MAY_INCLUDE = {
    "python": {"python", "distributed", "aten", "kernels", "runtime"},
    "distributed": {"distributed", "aten", "kernels", "runtime"},
    "aten": {"aten", "kernels", "runtime"},
    "kernels": {"kernels", "runtime"},
    "runtime": {"runtime"},
}
LAYER_INCLUDE = re.compile(r'#\s*include\s*"(python|distributed|aten|kernels|runtime)/')


def sources(*directories: str, suffixes: set[str]) -> list[Path]:
    return sorted(path for name in directories for path in (ROOT / name).rglob("*") if path.suffix in suffixes)


def lines_that_match(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize("layer", ["include", "runtime", "kernels"])
def test_nothing_below_aten_includes_torch(layer: str) -> None:
    paths = sources(f"csrc/{layer}", suffixes=CPP_SUFFIXES)
    assert paths
    assert lines_that_match(TORCH_INCLUDE, paths) == []


@pytest.mark.parametrize("layer", MAY_INCLUDE)
def test_includes_point_down(layer: str) -> None:
    upwards = [
        f"{path.relative_to(ROOT)} includes {match[1]}/"
        for path in sources(f"csrc/{layer}", suffixes=CPP_SUFFIXES)
        for match in LAYER_INCLUDE.finditer(path.read_text())
        if match[1] not in MAY_INCLUDE[layer]
    ]
    assert upwards == []


@pytest.mark.parametrize(
    ("directory", "suffixes", "home"),
    [("csrc", CPP_SUFFIXES, "csrc/runtime/device_name.h"), ("torch_mydev", {".py"}, "torch_mydev/_device_name.py")],
)
def test_device_name_is_written_once(directory: str, suffixes: set[str], home: str) -> None:
    literal = re.compile(r"""["']mydev["']""")
    found = lines_that_match(literal, sources(directory, suffixes=suffixes))
    assert [line.partition(":")[0] for line in found] == [home], found


@pytest.mark.parametrize("directory", ["csrc", "torch_mydev", "tests", "benchmarks", "examples", "tools"])
def test_files_hold_one_concept(directory: str) -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources(directory, suffixes=CPP_SUFFIXES | {".py", ".sh"})
        if (count := len(path.read_text().splitlines())) > 700
    }
    assert long == {}
