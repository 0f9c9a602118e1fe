"""The part of ``mydev doctor`` about PyTorch: torch, the native part that is bound to it, and the device at work.

Policy. Nothing is loaded into this process, as in mydev.cli.doctor.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points
from pathlib import Path
from typing import Any, Literal

from mydev.cli.finding import Finding
from mydev.top import size_text, snapshot
from mydev.wording import counted
from torch_mydev import __version__, _entry_point, _torch_version
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev._native_part import native_part

_PACKAGE_DIR = Path(__file__).parent.parent
_MINOR_VERSION = __version__.rpartition(".")[0]  # ends the names of libraries that others are linked with
_NATIVE_FILES = (f"libtorch_mydev.so.{_MINOR_VERSION}", f"libmydev_distributed.so.{_MINOR_VERSION}")
_AUTOLOAD_SWITCH = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_PREFIX = "MYDEV_"


class TorchPart:
    """Examines the installation, and then, where that has no problem, the device at work."""

    def examine(self) -> Iterator[Finding]:
        """Reads files and metadata."""
        yield Finding("ok", "torch_mydev", f"{__version__} at {_PACKAGE_DIR}")
        yield from _examine_torch()
        yield from _examine_files()
        yield from _examine_entry_points()

    def try_device(self) -> Iterator[Finding]:
        """Imports torch and uses the device, in a process of its own."""
        yield from _examine_running()


# --- read -------------------------------------------------------------------------------------------------------------


def _examine_torch() -> Iterator[Finding]:
    try:
        version = _torch_version.installed_version()
    except PackageNotFoundError:
        remedy = f"pip install 'torch=={_torch_version.PIP_PIN}'"
        yield Finding("problem", "torch", "is not installed for this Python", remedy)
        return
    problem = _torch_version.explain_unsupported(version)
    if problem:
        yield Finding("problem", "torch", problem, f"pip install 'torch=={_torch_version.PIP_PIN}'")
    else:
        yield Finding("ok", "torch", version)


def _examine_files() -> Iterator[Finding]:
    rebuild = "make build, or pip install --no-build-isolation . in the source directory"
    try:
        version = _torch_version.installed_version()
    except PackageNotFoundError:
        return  # said above
    try:
        part = native_part(version)
    except ImportError as error:
        yield Finding("problem", "native part", str(error), rebuild)
        return
    info = part.build_info
    extensions = part.extension_files()
    missing = [name for name in _NATIVE_FILES if not (part.directory / name).exists()]
    if not extensions:
        text = f"built for Python {info['python']}; this is {platform.python_version()}"
        yield Finding("problem", "native part", text, rebuild)
    if missing:
        yield Finding("problem", "native part", f"{part.directory} lacks {', '.join(missing)}", rebuild)
    if extensions and not missing:
        yield Finding("ok", "native part", f"built with torch {info['torch']}, Python {info['python']}")


def _examine_entry_points() -> Iterator[Finding]:
    backends = {point.name: point.value for point in entry_points(group="torch.backends")}
    own = [name for name, value in backends.items() if value.startswith(f"{_entry_point.__name__}:")]
    others = sorted(set(backends) - set(own))
    if os.environ.get(_AUTOLOAD_SWITCH, "1") != "1":
        switch = f"{_AUTOLOAD_SWITCH}={os.environ[_AUTOLOAD_SWITCH]}"
        text = f"off, since {switch}; `import torch_mydev` makes the device known"
        yield Finding("note", "autoload", text)
    elif own:
        yield Finding("ok", "autoload", "`import torch` makes the device known")
    else:
        text = "the package is not installed (only found on the path), so `import torch` does not know of it"
        yield Finding("note", "autoload", text, "import torch_mydev, or pip install --no-build-isolation -e .")
    if others:
        text = f"other backends are installed too ({', '.join(others)}); torch has room for one per process"
        yield Finding("note", "autoload", text, "uninstall them if the device is not available")


# --- try --------------------------------------------------------------------------------------------------------------

# Runs in a child process; prints one JSON object as its last line.
_PROBE = """
import json, time, warnings
result = {"warnings": []}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    begin = time.perf_counter()
    import torch
    result["seconds"] = time.perf_counter() - begin
try:
    import torch_mydev
    from torch_mydev import _C
    result["rows"] = [(row["name"], row["default"], row["doc"]) for row in _C.config_variables()]
    result["typos"] = _C.config_warnings()
    result["instruction_sets"] = _C.supported_instruction_sets()
    result["instruction_set"] = _C.instruction_set()
    module = getattr(torch, torch_mydev.device_name)
    result["count"] = module.device_count()
    result["driver_error"] = _C.driver_error()
    result["extensions"] = _C.driver_extensions()
    result["languages"] = _C.compiler_languages(0) if result["count"] else []
    result["devices"] = [_C.device_properties(index) for index in range(result["count"])]
    result["memory"] = [module.mem_get_info(index) for index in range(result["count"])]
    if result["count"]:
        ones = torch.ones(2, device=torch_mydev.device_name)
        result["sum"] = (ones + ones).sum().item()
except Exception as error:
    result["error"] = f"{type(error).__name__}: {error}"
print()
print(json.dumps(result))
"""


def _examine_running() -> Iterator[Finding]:
    child = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    lines = child.stdout.splitlines()
    if child.returncode != 0 or not lines:
        how = f"exit code {child.returncode}"
        if child.returncode < 0:
            how = signal.Signals(-child.returncode).name
        last = child.stderr.strip().splitlines()[-1:]
        text = f"a process that imports torch and uses the device ends with {how}: {' '.join(last)}"
        yield Finding("problem", "start", text, f"run with {_AUTOLOAD_SWITCH}=0 to see whether torch alone works")
        return
    result: dict[str, Any] = json.loads(lines[-1])
    yield Finding("ok", "start", f"import torch takes {result['seconds']:.2f} s, the device included")
    yield from _examine_environment(result)
    yield from _examine_devices(result)
    if "error" in result:
        yield Finding("problem", "start", result["error"])


def _examine_environment(result: dict[str, Any]) -> Iterator[Finding]:
    for name, default, doc in result.get("rows", []):
        if name in os.environ:
            yield Finding("ok", "environment", f"{name}={os.environ[name]}  (default '{default}': {doc})")
    for warning in result.get("typos", []):
        yield Finding("problem", "environment", warning, "correct the name, or unset it")
    if "instruction_set" in result:
        others = ", ".join(result["instruction_sets"])
        yield Finding("ok", "kernels", f"use {result['instruction_set']}; this processor and build have {others}")


def _hardware(properties: dict[str, Any]) -> str:
    parts = [
        f"architecture {properties['architecture']}",
        counted(properties["multi_processor_count"], "multiprocessor"),
        f"largest allocation {size_text(properties['max_allocation'])}",
    ]
    if properties["shared_memory_per_block"]:
        parts.append(f"{properties['shared_memory_per_block'] / 2**10:g} KiB of local memory each")
    if properties["memory_bandwidth"]:
        parts.append(f"memory bandwidth {properties['memory_bandwidth'] / 1e9:g} GB/s")
    if properties["native_dtypes"]:
        parts.append(f"computes in {', '.join(properties['native_dtypes'])}")
    return f"{', '.join(parts)}, uuid {uuid.UUID(hex=properties['uuid'])}"


def _memory(index: int, driver: str, free: int, total: int) -> str:
    """Says how much is in use by the driver's count, and what processes hold (`mydev top`)."""
    users = [use for use in snapshot() if (use.device, use.driver) == (f"{DEVICE_NAME}:{index}", driver)]
    text = f"the driver counts {size_text(total - free)} of {size_text(total)} in use"
    shown = ", ".join(f"process {use.pid} holds {size_text(use.held)}" for use in users)
    return f"{text}; {shown}" if shown else text


def _examine_devices(result: dict[str, Any]) -> Iterator[Finding]:
    if result.get("driver_error"):
        yield Finding("problem", "driver", result["driver_error"], f"see {_PREFIX}DRIVER in docs/driver.md")
    elif result.get("count") == 0:
        yield Finding("problem", "driver", "is loaded but reports no device", "check that the hardware is there")
    for index, properties in enumerate(result.get("devices", [])):
        known = ("host_accessible", "host_access_slow", "asynchronous", "peer_access", "unified_memory")
        kinds = [kind for kind in known if properties[kind]]
        text = (
            f"{properties['name']}, {size_text(properties['total_memory'])}, driver {properties['driver']} "
            f"{properties['driver_version']}, {', '.join(kinds) or 'discrete'}"
        )
        yield Finding("ok", f"{DEVICE_NAME}:{index}", text)
        yield Finding("ok", f"{DEVICE_NAME}:{index}", _hardware(properties))
        if "memory" in result:
            yield Finding(
                "ok", f"{DEVICE_NAME}:{index}", _memory(index, properties["driver"], *result["memory"][index])
            )
    for name, version, known in result.get("extensions", []):
        text = f"offers extension '{name}', version {version}{'' if known else ', which this runtime does not know'}"
        yield Finding("ok" if known else "note", "driver", text)
    if languages := result.get("languages"):
        yield Finding("ok", "driver", f"compiles kernels from {', '.join(languages)}")
    if "sum" in result:
        state: Literal["ok", "problem"] = "ok" if result["sum"] == 4 else "problem"
        yield Finding(state, "computation", f"1 + 1, twice, summed on the device is {result['sum']:g}")
