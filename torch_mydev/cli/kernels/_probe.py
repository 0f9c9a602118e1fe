"""Run as a script, in a process of its own, by ``kernels check`` and ``kernels why``: loads a library of kernels and
reads its table, with nothing but ctypes, so that whatever goes wrong goes wrong here.

Prints one JSON object per line: {"step": ...} before each thing that may crash, then what was found. Arguments: the
file, then the libraries to load before it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

_MAJOR, _MINOR = 1, 0
_ABSURD = 1 << 16


class _Library(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("version_major", ctypes.c_uint32),
        ("version_minor", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("kernels", ctypes.c_void_p),
        ("num_kernels", ctypes.c_uint32),
    )


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("entry", ctypes.c_void_p),
        ("scratch_bytes", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("driver_data", ctypes.c_void_p),
        ("platform", ctypes.c_char_p),
        ("kind", ctypes.c_int32),
        ("traits", ctypes.c_uint32),
        ("execute", ctypes.c_void_p),
        ("instantiate", ctypes.c_void_p),
        ("prepare", ctypes.c_void_p),
        ("initialize", ctypes.c_void_p),
        ("signature", ctypes.c_void_p),
        ("gradient", ctypes.c_void_p),
        ("batching", ctypes.c_int32),
    )


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _copy(kind: Any, address: int, minimum: int) -> Any:
    """The struct at an address, without what lies beyond its own struct_size."""
    size = ctypes.c_size_t.from_address(address).value
    value = kind()
    ctypes.memmove(ctypes.byref(value), address, max(minimum, min(size, ctypes.sizeof(kind))))
    value.struct_size = size
    return value


def _record(index: int, address: int | None) -> dict[str, Any]:
    if not address:
        return {"index": index, "null": True}
    kernel = _copy(_Kernel, address, _Kernel.driver_data.offset)
    return {
        "index": index,
        "name": _text(kernel.name),
        "struct_size": kernel.struct_size,
        "kind": kernel.kind,
        "platform": _text(kernel.platform),
        "callable": bool(kernel.entry if kernel.kind == 0 else kernel.execute),
        "signature": bool(kernel.signature),
    }


def main(path: str, *before: str) -> int:
    """Loads and reads."""
    for other in before:
        ctypes.CDLL(other, mode=ctypes.RTLD_GLOBAL)
    _say(step="loading it (its static constructors run)")
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW)
    except OSError as error:
        _say(load_error=str(error))
        return 0
    try:
        query = library.mydev_custom_call_query
    except AttributeError:
        _say(missing_query=True)
        return 0
    query.restype = ctypes.c_void_p
    query.argtypes = (ctypes.c_uint32, ctypes.c_uint32)
    _say(step="asking it for its table (mydev_custom_call_query)")
    address = query(_MAJOR, _MINOR)
    if not address:
        _say(refused_version=f"{_MAJOR}.{_MINOR}")
        return 0
    _say(step="reading its table")
    table = _copy(_Library, address, ctypes.sizeof(ctypes.c_size_t))
    count = table.num_kernels
    _say(
        struct_size=table.struct_size,
        expected_size=ctypes.sizeof(_Library),
        abi=f"{table.version_major}.{table.version_minor}",
        same_major=table.version_major == _MAJOR,
        name=_text(table.name),
        version=_text(table.version),
        num_kernels=count,
    )
    if count > _ABSURD or (count and not table.kernels):
        _say(absurd_table=True)
        return 0
    addresses = (ctypes.c_void_p * count).from_address(table.kernels) if count else ()
    for index, at in enumerate(addresses):
        _say(step=f"reading record {index}")
        _say(record=_record(index, at), expected_size=ctypes.sizeof(_Kernel))
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    _say(done=True)
    sys.exit(code)
