"""Registering functions as kernels, one by one, as jax.ffi.register_ffi_target does."""

from __future__ import annotations

import ctypes
from _ctypes import CFuncPtr  # ctypes gives it no public name
from collections.abc import Mapping
from typing import Any, Literal

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME

KernelKind = Literal[
    "original_host", "original_device", "status_host", "status_device", "unified_host", "unified_device"
]

_KINDS = {
    "typed_ffi": 1,
    "original_host": 2,
    "original_device": 3,
    "status_host": 4,
    "status_device": 5,
    "unified_host": 6,
    "unified_device": 7,
}
_STAGES = ("execute", "instantiate", "prepare", "initialize")
_RECORD = "record"  # accepted for the bundles that JAX takes; no launch here is recorded, so nothing calls it
_kept_alive: list[Any] = []  # functions that were registered


def register_ffi_target(
    name: str,
    fn: Any,
    platform: str = "cpu",
    api_version: int = 1,
    kind: KernelKind | None = None,
    traits: int = 0,
) -> None:
    """Registers a function as a kernel, under the terms of ``jax.ffi.register_ffi_target``.

    Args:
        name: letters, digits or any of ``_ . : -``.
        fn: a PyCapsule of any name, a ctypes function, an address, or a dict of those with the keys "instantiate",
            "prepare", "initialize" and "execute". It is kept alive for ever. A stage "record" is accepted and never
            called, since this device does not record commands.
        platform: "cpu", or the device's name for a handler that enqueues its work on the device's stream.
        api_version: 1 for XLA's typed FFI, 0 for its older interfaces, which ``kind`` tells apart.
        kind: with ``api_version=0``: "original_host" (API version 1), "status_host" (2), "unified_host" (3), or their
            "…_device" forms.
        traits: bit 0: COMMAND_BUFFER_COMPATIBLE; bit 1: TUPLE_RESULT, see mydev/custom_call.h.

    Raises ValueError for a function that is no handler or speaks another version, and RuntimeError if another kernel
    has the name.
    """
    if api_version not in (0, 1):
        raise ValueError(f"{name}: api_version is {api_version!r}; give 1 for typed FFI, 0 for the older interfaces")
    if api_version == 1 and kind is not None:
        raise ValueError(f"{name}: kind={kind!r} is for api_version=0")
    if api_version == 0 and kind not in _KINDS:
        raise ValueError(f"{name}: with api_version=0 give kind=, one of {', '.join(list(_KINDS)[1:])}; got {kind!r}")
    if platform not in ("cpu", "Host", DEVICE_NAME):
        raise ValueError(f"{name}: platform {platform!r} is not one of this device: give 'cpu' or '{DEVICE_NAME}'")
    if not isinstance(traits, int) or not 0 <= traits < 1 << 32:
        raise ValueError(f"{name}: traits is {traits!r}; give bits, see mydev_trait in mydev/custom_call.h")
    stages = dict(fn) if isinstance(fn, Mapping) else {"execute": fn}
    known = (*_STAGES, _RECORD)
    if unknown := set(stages) - set(known):
        raise ValueError(f"{name}: no such stage: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if "execute" not in stages:
        raise ValueError(f"{name}: the stage 'execute' is missing")
    addresses = [_address(name, stages.get(stage)) for stage in known][: len(_STAGES)]
    _C.register_ffi_target(
        name,
        DEVICE_NAME if platform == DEVICE_NAME else None,
        _KINDS[kind or "typed_ffi"],
        traits,
        *addresses,
    )
    _kept_alive.append(fn)


def _address(name: str, function: Any) -> int:
    """The address of a function in one of the forms that register_ffi_target takes; 0 for None."""
    if function is None:
        return 0
    address = _pointer(name, function)
    if not _is_code(address):
        raise ValueError(f"{name}: at {address:#x} there is no code")
    return address


def _is_code(address: int) -> bool:
    """Whether the address lies in memory that may be run."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, permissions = line.split(maxsplit=2)[:2]
            begin, end = (int(bound, 16) for bound in span.split("-"))
            if begin <= address < end:
                return "x" in permissions
    return False


def _pointer(name: str, function: Any) -> int:
    if isinstance(function, int) and not isinstance(function, bool):
        if function <= 0:
            raise ValueError(f"{name}: {function} is not the address of a function")
        return function
    if isinstance(function, CFuncPtr):
        address = ctypes.cast(function, ctypes.c_void_p).value
        if not address:
            raise ValueError(f"{name}: the ctypes function is NULL")
        return address
    if type(function).__name__ == "PyCapsule":
        address = _C.capsule_address(function)
        return int(address)
    raise TypeError(
        f"{name}: a {type(function).__name__} is no function; give a PyCapsule, a ctypes function, an address, or a "
        "dict of them by stage"
    )
