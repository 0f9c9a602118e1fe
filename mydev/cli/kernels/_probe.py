"""Run as a script, in a process of its own, by ``kernels check`` and ``kernels why``: loads a library of kernels and
reads its table, with nothing but ctypes, so that whatever goes wrong goes wrong here.

Prints one JSON object per line: {"step": ...} before each thing that may crash, then what was found. Arguments: the
file, then the libraries to load before it.

The structs end with the last field that is read here. Since mydev/custom_call.h only ever appends fields, they fit
libraries of every minor version, older and newer.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

VERSION = (1, 2)  #: of mydev/custom_call.h
_ABSURD = 1 << 16


class Library(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("version_major", ctypes.c_uint32),
        ("version_minor", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("kernels", ctypes.c_void_p),
        ("num_kernels", ctypes.c_uint32),
    )


class Kernel(ctypes.Structure):
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
    )


# The least struct_size that the loader takes: the end of the last field that a writer must know.
_LEAST_LIBRARY = Library.num_kernels.offset + Library.num_kernels.size
_LEAST_KERNEL = Kernel.driver_data.offset + Kernel.driver_data.size


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _copy(kind: Any, address: int) -> Any:
    """The struct at an address; fields that lie beyond its own struct_size are zero."""
    size = ctypes.c_size_t.from_address(address).value
    value = kind()
    ctypes.memmove(ctypes.byref(value), address, min(size, ctypes.sizeof(kind)))
    value.struct_size = size
    return value


def _record(index: int, address: int | None) -> dict[str, Any]:
    if not address:
        return {"index": index, "null": True}
    kernel = _copy(Kernel, address)
    return {
        "index": index,
        "name": _text(kernel.name),
        "struct_size": kernel.struct_size,
        "least_size": _LEAST_KERNEL,
        "kind": kernel.kind,
        "callable": bool(kernel.entry or kernel.driver_data if kernel.kind == 0 else kernel.execute),
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
    address = query(*VERSION)
    if not address:
        _say(refused_version="{}.{}".format(*VERSION))
        return 0
    _say(step="reading its table")
    table = _copy(Library, address)
    count = table.num_kernels
    _say(
        struct_size=table.struct_size,
        least_size=_LEAST_LIBRARY,
        abi=f"{table.version_major}.{table.version_minor}",
        same_major=table.version_major == VERSION[0],
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
        _say(record=_record(index, at))
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    _say(done=True)
    sys.exit(code)
