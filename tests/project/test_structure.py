"""Rules about the source itself: which room may use which, where a name may stand, how long files and functions may be.

What the rules are made of, and that they find what breaks them: test_structure_rules.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.function_length import cpp_functions, python_functions
from support.source_order import CPP_SUFFIXES, Edges, against_order, below, circle, imports, includes

MOST_LINES_OF_A_FILE = 500
MOST_LINES_OF_A_FUNCTION = 80
DIRECTORIES = ["csrc", "torch_mydev", "pjrt_mydev", "tests", "benchmarks", "examples", "tools"]
TORCH_INCLUDE = re.compile(r'#\s*include\s*[<"](torch|ATen|c10|caffe2|pybind11|Python\.h)')

# What the layers of csrc may use. The built-in driver is a driver like any other: it knows the public header alone. Its
# kernels are one library among others: nothing above names them.
LAYERS: dict[str, set[str]] = {
    "include": set(),
    "runtime": {"include"},
    "host_driver": {"include"},
    "kernels": {"include", "runtime"},
    "host_kernels": {"include", "runtime", "kernels"},
    "program": {"include", "runtime", "kernels"},
    "stablehlo": {"include", "runtime"},
    "conform": {"include", "runtime", "kernels"},
    "transport": {"include", "runtime"},
    "lowering": {"include", "runtime", "kernels", "program", "stablehlo", "transport"},
    "pjrt": {"include", "runtime", "kernels", "program", "stablehlo", "transport", "lowering"},
    "aten": {"include", "runtime", "kernels", "program"},
    "distributed": {"include", "runtime", "kernels", "program", "aten"},
    "python": {"include", "runtime", "kernels", "program", "aten", "distributed"},
}
BELOW_ATEN = [
    "include",
    "runtime",
    "host_driver",
    "kernels",
    "host_kernels",
    "program",
    "stablehlo",
    "transport",
    "lowering",
    "pjrt",
    "conform",
]
# The rooms of a layer or package, from the lowest to the highest; "." is what lies beside them.
ROOMS = {
    "csrc/runtime": below(["base", "frame", "driver", "stream", "memory", "command", "validation"]),
    "csrc/aten": below(["core", "memory", "launch", "trace", "device", "graph", "host", "ops", "custom_call", "."]),
    "csrc/kernels": below(["spec", "registry", "launch", "custom_call", "ffi"]),
    "csrc/program": below(["ir", "text", "transform", "plan", "run", "record"]),
    "csrc/stablehlo": below(["ir", "verifier", "bytecode", "text", "evaluator"]),
    "csrc/conform": below([".", "driver", "kernels"]),
    "csrc/pjrt": below(["c_api", "base", "device", "buffer", "executable", "python", "api"]),
    "torch_mydev": below(
        [
            ".",
            "device",
            "observe",
            "custom_call",
            "compile",
            "distributed",
            "integrations",
            "jax",
            "patches",
            "_autoload",
            "__init__",
            "conform",
            "cli",
            "__main__",
        ]
    ),
}
# Modules beside the rooms of torch_mydev that are above them; the others import nothing of the package but each other.
TOP_MODULES = {Path(f"{name}.py"): name for name in ("jax", "patches", "_autoload", "__init__", "__main__")}


def sources(*directories: str, suffixes: set[str]) -> list[Path]:
    return sorted(path for name in directories for path in (ROOT / name).rglob("*") if path.suffix in suffixes)


def lines_that_match(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


def edges_of(directory: str) -> Edges:
    """Who uses whom in a layer or package; in csrc, layers see the public headers as ``mydev/…``."""
    if directory == "torch_mydev":
        return imports(ROOT / directory)
    edges = includes(ROOT / "csrc", [ROOT / "csrc" / "include"])
    if directory == "csrc":
        return edges
    layer = Path(directory).name
    inside = {path: {other for other in used if other.parts[0] == layer} for path, used in edges.items()}
    return {
        path.relative_to(layer): {other.relative_to(layer) for other in used}
        for path, used in inside.items()
        if path.parts[0] == layer
    }


@pytest.mark.parametrize("layer", BELOW_ATEN)
def test_nothing_below_aten_includes_torch(layer: str) -> None:
    paths = sources(f"csrc/{layer}", suffixes=CPP_SUFFIXES)
    assert paths
    assert lines_that_match(TORCH_INCLUDE, paths) == []


def test_layers_use_what_is_below_them() -> None:
    assert against_order(edges_of("csrc"), LAYERS) == []


@pytest.mark.parametrize("directory", ROOMS)
def test_rooms_use_what_is_below_them(directory: str) -> None:
    top = TOP_MODULES if directory == "torch_mydev" else {}
    assert against_order(edges_of(directory), ROOMS[directory], top) == []


@pytest.mark.parametrize("directory", ["csrc", "torch_mydev"])
def test_no_files_use_each_other_in_a_circle(directory: str) -> None:
    edges = edges_of(directory)
    assert sum(map(len, edges.values())) > len(edges) / 2, "hardly any use was found"
    assert circle(edges) == []


@pytest.mark.parametrize(
    ("directory", "suffixes", "home"),
    [
        ("csrc", CPP_SUFFIXES, "csrc/runtime/base/device_name.h"),
        ("torch_mydev", {".py"}, "torch_mydev/_device_name.py"),
    ],
)
def test_device_name_is_written_once(directory: str, suffixes: set[str], home: str) -> None:
    literal = re.compile(r"""["']mydev["']""")
    found = lines_that_match(literal, sources(directory, suffixes=suffixes))
    assert [line.partition(":")[0] for line in found] == [home], found


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_files_hold_one_concept(directory: str) -> None:
    counts = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in sources(directory, suffixes=CPP_SUFFIXES | {".py", ".sh"})
    }
    assert counts
    assert {path: count for path, count in counts.items() if count > MOST_LINES_OF_A_FILE} == {}


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_functions_fit_on_a_page(directory: str) -> None:
    functions = [
        (f"{path.relative_to(ROOT)}:{line}: {name}", count)
        for path in sources(directory, suffixes=CPP_SUFFIXES | {".py"})
        for name, line, count in (python_functions if path.suffix == ".py" else cpp_functions)(path.read_text())
    ]
    assert functions
    assert [function for function in functions if function[1] > MOST_LINES_OF_A_FUNCTION] == []


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports each by its name alone: of two with one name it refuses the second."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        homes.setdefault(path.name, []).append(str(path.relative_to(ROOT)))
    assert [paths for paths in homes.values() if len(paths) > 1] == []
