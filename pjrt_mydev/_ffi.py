"""Targets of custom calls: functions that `jax.ffi.register_ffi_target` registers for the device's platform."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from pjrt_mydev._library import library_path

# Kinds of kernels (mydev/custom_call.h). Functions of the version before typed ones are of the kind that a call says:
# each is registered for all three, as "<name>:<version>".
_TYPED = 1
_LEGACY = {1: 2, 2: 4, 3: 6}
_STAGES = ("execute", "instantiate", "prepare", "initialize")


@cache
def _register() -> Any:
    function = ctypes.CDLL(str(library_path())).mydev_pjrt_register_target
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint32, *[ctypes.c_void_p] * len(_STAGES)]
    return function


def _address(capsule: Any) -> int | None:
    if capsule is None:
        return None
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name(capsule)))


def register_target(name: str, target: Any, platform: str, api_version: int = 1, traits: int = 0) -> None:
    """Registers a capsule, or a dict of one for each stage, as JAX hands them to a platform's handler.

    Raises ValueError with what the plugin says.
    """
    stages = target if isinstance(target, dict) else {"execute": target}
    unknown = set(stages) - set(_STAGES)
    if unknown:
        raise ValueError(f"target {name!r} for {platform}: there are no stages {sorted(unknown)}")
    addresses = [_address(stages.get(stage)) for stage in _STAGES]
    kinds = {name: _TYPED} if api_version == 1 else {f"{name}:{version}": kind for version, kind in _LEGACY.items()}
    for kernel, kind in kinds.items():
        problem = _register()(kernel.encode(), kind, traits, *addresses)
        if problem is not None:
            raise ValueError(problem.decode())
