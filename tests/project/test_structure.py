"""Rules about the source itself: which folder may use which, where a name may stand, how long files and functions are.

test_structure_rules.py tests the parts of the rules, and that the rules find what breaks them.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.function_length import cpp_functions, python_functions
from support.source_order import CPP_SUFFIXES, Edges, against_order, below, circle, imports, includes

# A file or a function that is longer is a warning, and one that is much longer an error.
LONG_FILE, TOO_LONG_FILE = 500, 800
LONG_FUNCTION, TOO_LONG_FUNCTION = 80, 150
DIRECTORIES = ["csrc", "mydev", "torch_mydev", "pjrt_mydev", "tests", "benchmarks", "examples", "tools"]
TORCH_INCLUDE = re.compile(r'#\s*include\s*[<"](torch|ATen|c10|caffe2|pybind11|Python\.h)')

# The layers of csrc that each layer may use. The built-in driver is a driver like any other: it knows the public header
# alone. Its kernels are one library among others: nothing above names them.
LAYERS: dict[str, set[str]] = {
    "include": set(),
    "runtime": {"include"},
    "driver_support": {"include"},
    "host_driver": {"include", "driver_support"},
    "opencl_driver": {"include", "driver_support"},
    "cuda_driver": {"include", "driver_support"},
    "kernels": {"include", "runtime"},
    "host_kernels": {"include", "runtime", "kernels"},
    "device_kernels": {"include", "runtime", "kernels"},
    "program": {"include", "runtime", "kernels"},
    "collectives": {"include", "runtime", "kernels"},
    "stablehlo": {"include", "runtime"},
    "conform": {"include", "runtime", "kernels"},
    "transport": {"include", "runtime"},
    "lowering": {"include", "runtime", "kernels", "program", "collectives", "stablehlo", "transport"},
    "pjrt": {"include", "runtime", "kernels", "program", "collectives", "stablehlo", "transport", "lowering"},
    "aten": {"include", "runtime", "kernels", "program"},
    "distributed": {"include", "runtime", "kernels", "program", "collectives", "aten"},
    "python": {"include", "runtime", "kernels", "program", "collectives", "aten", "distributed"},
}
BELOW_ATEN = [
    "include",
    "runtime",
    "driver_support",
    "host_driver",
    "opencl_driver",
    "cuda_driver",
    "kernels",
    "host_kernels",
    "device_kernels",
    "program",
    "collectives",
    "stablehlo",
    "transport",
    "lowering",
    "pjrt",
    "conform",
]
# The folders of a layer or package, from the lowest to the highest; "." is what lies beside them.
FOLDERS = {
    "csrc/runtime": below(["base", "frame", "driver", "stream", "memory", "command", "validation"]),
    "csrc/host_driver": below([".", "observe", "memory", "stream", "compiler", "the driver"]),
    "csrc/opencl_driver": below(["api", ".", "platform", "memory", "observe", "stream", "compiler", "the driver"]),
    "csrc/cuda_driver": below(
        ["library", "device", "memory", "stream", "observe", "commands", "compiler", "kernels", "."]
    ),
    "csrc/device_kernels": below(["base", "text", "kernels", "fused", "."]),
    "csrc/host_kernels": below([".", "isa", "fused", "onednn", "fft", "the library"]),
    "csrc/host_kernels/isa": below(
        [".", "simd", "random", "pointwise", "reduction", "normalization", "indexing", "pooling", "products"]
    ),
    "csrc/lowering": below([".", "collectives", "sharding", "the frame", "loops", "operators"]),
    "csrc/aten": below(["core", "memory", "launch", "trace", "device", "graph", "host", "ops", "custom_call", "."]),
    "csrc/aten/ops": below(
        [
            *(".", "composed", "pointwise", "reduction", "indexing", "memory", "linear", "normalization", "pooling"),
            "random",
        ]
    ),
    "csrc/distributed": below(["parts", "stages", "works", "backend", "collectives"]),
    "csrc/python": below(["tools", "."]),
    "csrc/kernels": below(["language", "spec", "registry", "launch", "custom_call", "ffi"]),
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
            "_entry_point",
            "__init__",
            "typing",
            "conform",
            "cli",
        ]
    ),
    "mydev": below([".", "__init__", "libraries", "drivers", "top", "new_device", "cli", "__main__"]),
}
# Files that count for another folder than their own, by their names, with their endings or without.
ELSEWHERE: dict[str, dict[str, list[str]]] = {
    "csrc/host_driver": {"the driver": ["host_driver", "host_launch"]},
    "csrc/opencl_driver": {"the driver": ["opencl_driver"]},
    "csrc/host_kernels": {"the library": ["builtin_kernels.cpp"]},
    "csrc/lowering": {"the frame": ["lowering", "frame"]},
    "csrc/distributed": {
        "parts": [
            *(
                "backend_hooks",
                "coalesced_work",
                "collective_error",
                "host_operands",
                "issue_thread",
                "operand_checks",
                "reducer_timer",
            ),
            *("machine_engine", "reduction", "refusing_backend", "self_transfers"),
        ],
        "stages": ["stages"],
        "works": ["captured_work", "device_work"],
        "backend": ["device_backend"],
        "collectives": ["collectives", "sparse_collectives"],
    },
    "csrc/python": {"tools": ["bindings", "direct_call", "frame_walk", "interpreter"]},
    # These are above the folders; the other modules beside them import nothing of the package but each other.
    "torch_mydev": {
        "jax": ["jax", "jax_function"],
        **{name: [name] for name in ("patches", "_autoload", "_entry_point", "__init__", "typing")},
    },
    "mydev": {name: [name] for name in ("__init__", "__main__", "drivers", "libraries", "top")},
}


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
    if directory in ("mydev", "torch_mydev"):
        return imports(ROOT / directory)
    edges = includes(ROOT / "csrc", [ROOT / "csrc" / "include"])
    if directory == "csrc":
        return edges
    top = Path(directory).relative_to("csrc")
    return {
        path.relative_to(top): {other.relative_to(top) for other in used if other.is_relative_to(top)}
        for path, used in edges.items()
        if path.is_relative_to(top)
    }


def places(directory: str, edges: Edges) -> dict[Path, str]:
    """The files that ELSEWHERE names."""
    names = {name: place for place, files in ELSEWHERE.get(directory, {}).items() for name in files}
    beside = [path for path in edges if len(path.parts) == 1]
    return {path: names[key] for path in beside for key in (path.name, path.stem) if key in names}


@pytest.mark.parametrize("layer", BELOW_ATEN)
def test_nothing_below_aten_includes_torch(layer: str) -> None:
    paths = sources(f"csrc/{layer}", suffixes=CPP_SUFFIXES)
    assert paths
    assert lines_that_match(TORCH_INCLUDE, paths) == []


def test_layers_use_what_is_below_them() -> None:
    assert against_order(edges_of("csrc"), LAYERS) == []


@pytest.mark.parametrize("directory", FOLDERS)
def test_folders_use_what_is_below_them(directory: str) -> None:
    edges = edges_of(directory)
    assert against_order(edges, FOLDERS[directory], places(directory, edges)) == []


@pytest.mark.parametrize("directory", ["csrc", "mydev", "torch_mydev"])
def test_no_files_use_each_other_in_a_circle(directory: str) -> None:
    edges = edges_of(directory)
    assert sum(map(len, edges.values())) > len(edges) / 2, "hardly any use was found"
    assert circle(edges) == []


@pytest.mark.parametrize(
    ("directory", "homes"),
    [
        ("csrc", ["csrc/runtime/base/device_name.cpp"]),
        ("mydev", ["mydev/__init__.py", "mydev/drivers.py"]),  # the command, the device
        ("pjrt_mydev", []),
        ("torch_mydev", ["torch_mydev/distributed/backend.py"]),  # the backend of torch.distributed
    ],
)
def test_device_name_is_written_once(directory: str, homes: list[str]) -> None:
    literal = re.compile(r"""["']mydev["']""")
    found = lines_that_match(literal, sources(directory, suffixes=CPP_SUFFIXES | {".py"}))
    assert [line.partition(":")[0] for line in found] == homes, found


def judge_lengths(lengths: dict[str, int], long: int, too_long: int) -> None:
    assert lengths
    for name, length in lengths.items():
        if long < length <= too_long:
            warnings.warn(f"{name} has {length} lines: is it one concept?", stacklevel=2)
    assert {name: length for name, length in lengths.items() if length > too_long} == {}


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_files_hold_one_concept(directory: str) -> None:
    paths = sources(directory, suffixes=CPP_SUFFIXES | {".py", ".sh"})
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}
    judge_lengths(lengths, LONG_FILE, TOO_LONG_FILE)


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_functions_fit_on_a_page(directory: str) -> None:
    lengths = {
        f"{path.relative_to(ROOT)}:{line}: {name}": count
        for path in sources(directory, suffixes=CPP_SUFFIXES | {".py"})
        for name, line, count in (python_functions if path.suffix == ".py" else cpp_functions)(path.read_text())
    }
    judge_lengths(lengths, LONG_FUNCTION, TOO_LONG_FUNCTION)


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports each by its name alone: of two with one name it refuses the second."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        homes.setdefault(path.name, []).append(str(path.relative_to(ROOT)))
    assert [paths for paths in homes.values() if len(paths) > 1] == []
