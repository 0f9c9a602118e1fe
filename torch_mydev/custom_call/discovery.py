"""Finding kernels: libraries that the environment and entry points name are loaded when a kernel is first looked up."""

from __future__ import annotations

import threading
import warnings
from importlib import metadata

from mydev.wording import did_you_mean
from torch_mydev import _C
from torch_mydev.custom_call.operators import sync_operators

ENTRY_POINTS = "mydev.custom_calls"

_lock = threading.Lock()
_asked_entry_points = False
_reported: set[tuple[str, str]] = set()  # refused libraries


def discover() -> None:
    """Loads what MYDEV_CUSTOM_CALLS and entry points name and has not been loaded, and makes the operators."""
    _load_entry_points()
    _C.load_discovered_libraries(None)
    for refused in refused_libraries():
        warnings.warn(refused, stacklevel=3)
    sync_operators()


def refused_libraries() -> list[str]:
    """A sentence for each library that MYDEV_CUSTOM_CALLS names and that is refused, once: one that is not there or not
    to be trusted, or that could not be loaded by now. Loads none."""
    with _lock:
        refused = [each for each in _C.refused_kernel_libraries() if each not in _reported]
        _reported.update(refused)
    return [f"MYDEV_CUSTOM_CALLS names {file}, which is not loaded: {reason}" for file, reason in refused]


def _load_entry_points() -> None:
    """Asks each entry point once; one that fails is a warning, since it may have nothing to do with the caller."""
    global _asked_entry_points
    with _lock:
        if _asked_entry_points:
            return
        _asked_entry_points = True
    for entry_point in metadata.entry_points(group=ENTRY_POINTS):
        _load_entry_point(entry_point)


def _load_entry_point(entry_point: metadata.EntryPoint) -> None:
    try:
        for path in entry_point.load()():
            _C.load_kernel_library(str(path))
    except Exception as error:
        warnings.warn(f"entry point {entry_point.name} = {entry_point.value}: {error}", stacklevel=2)


def has_kernel(name: str) -> bool:
    """Whether there is a kernel of this name; loads what may have it."""
    if not _C.has_kernel(name):
        discover()
    return bool(_C.has_kernel(name))


def require_kernel(name: str) -> None:
    """Raises ValueError, with names that are near, unless there is a kernel of this name."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a kernel is a str, not a {type(name).__name__}")
    if not has_kernel(name):
        advice = did_you_mean(name, _C.kernel_names(), otherwise="torch_mydev.kernels() lists what there is")
        refused = [f"{file}: {reason}" for file, reason in _C.refused_kernel_libraries()]
        hint = f" (MYDEV_CUSTOM_CALLS has {len(refused)} refused: {'; '.join(refused)})" if refused else ""
        raise ValueError(f"there is no kernel '{name}'; {advice}{hint}")


require_kernel._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compile asks while it compiles
