"""Questions to the registry of kernels: records, and the results that a kernel gives for operands of some shapes.

The structs are those of mydev/custom_call.h, the texts JSON that the plugin writes. Imports neither torch nor JAX.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from pjrt_mydev._library import library_path

_MOST_RANK = 32  # MYDEV_MAX_SHAPE_RANK
_INVALID_ARGUMENT, _NOT_FOUND, _UNIMPLEMENTED = 3, 5, 12
_KINDS = ("bool", "int", "float", "complex", "string", "int_array", "float_array", "array", "dictionary")


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int16),
        ("flags", ctypes.c_uint16),
    )


class _Value(ctypes.Union):
    _fields_ = (("i", ctypes.c_int64), ("f", ctypes.c_double), ("c", ctypes.c_double * 2), ("data", ctypes.c_void_p))


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_uint16),
        ("dtype", ctypes.c_uint16),
        ("count", ctypes.c_uint32),
        ("value", _Value),
    )


class _Shape(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("sizes", ctypes.c_int64 * _MOST_RANK))


@cache
def _plugin() -> Any:
    library = ctypes.CDLL(str(library_path()))
    text = ctypes.POINTER(ctypes.c_char_p)
    library.mydev_pjrt_load_kernels.argtypes = [ctypes.c_char_p, text]
    library.mydev_pjrt_describe_kernel.argtypes = [ctypes.c_char_p, text]
    library.mydev_pjrt_dtypes.argtypes = [text]
    library.mydev_pjrt_program.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), text]
    library.mydev_pjrt_program_text.argtypes = [ctypes.c_char_p, text]
    library.mydev_pjrt_infer_results.argtypes = [
        *(ctypes.c_char_p, ctypes.POINTER(_Buffer), ctypes.c_uint32, ctypes.POINTER(_Attribute), ctypes.c_uint32),
        *(ctypes.POINTER(_Shape), ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32), text),
    ]
    return library


def _ask(function: Any, *arguments: Any) -> str:
    """The text that the plugin answers with. Raises ValueError, NotImplementedError or RuntimeError, as torch_mydev."""
    text = ctypes.c_char_p()
    code = function(*arguments, ctypes.byref(text))
    answer = (text.value or b"").decode(errors="replace")
    if not code:
        return answer
    if code == _UNIMPLEMENTED:
        raise NotImplementedError(answer)
    raise ValueError(answer) if code in (_INVALID_ARGUMENT, _NOT_FOUND) else RuntimeError(answer)


def load_custom_calls(path: str | os.PathLike[str]) -> str:
    """See `pjrt_mydev.load_custom_calls`."""
    return _ask(_plugin().mydev_pjrt_load_kernels, os.path.abspath(path).encode())


def kernel_info(name: str) -> dict[str, Any]:
    """See `pjrt_mydev.kernel_info`."""
    info: dict[str, Any] = json.loads(_ask(_plugin().mydev_pjrt_describe_kernel, name.encode()))
    return info


def fingerprint(compiled: Any) -> str:
    """The fingerprint of what JAX's ``lowered.compile()`` gave."""
    found = compiled.runtime_executable().fingerprint
    return found.decode() if isinstance(found, bytes) else str(found)


def take_program(fingerprint: str) -> int:
    """The address of the program that an executable runs, for the native part of torch_mydev, whose it is then."""
    program = ctypes.c_void_p()
    _ask(_plugin().mydev_pjrt_program, fingerprint.encode(), ctypes.byref(program))
    return program.value or 0


def program_text(fingerprint: str) -> str:
    """The program that an executable runs. Raises ValueError where it is gone."""
    return _ask(_plugin().mydev_pjrt_program_text, fingerprint.encode())


@cache
def dtypes() -> Mapping[str, int]:
    """The number of each type of elements, by the name that NumPy and JAX have for it."""
    numbers: dict[str, int] = json.loads(_ask(_plugin().mydev_pjrt_dtypes))
    return numbers


def attribute_value(spec: Mapping[str, Any], value: Any) -> Any:
    """The value that JAX sends for an attribute of a signature, in the width that the record asks for."""
    kind, dtype = spec["kind"], spec["dtype"]
    width = np.dtype({"pred": "bool"}.get(dtype, _long_name(dtype))) if dtype else None
    if kind == "bool":
        return bool(value)
    if kind in ("int", "float"):
        return (width or np.dtype(np.int64 if kind == "int" else np.float64)).type(value)
    if kind == "complex":
        number = complex(*value) if isinstance(value, (list, tuple)) else complex(value)
        return np.array([number.real, number.imag], np.float64)
    if kind == "string":
        return str(value)
    if kind == "dictionary":
        return dict(value)
    return np.asarray(value, {"int_array": np.dtype(np.int64), "float_array": np.dtype(np.float64)}.get(kind, width))


def _long_name(dtype: str) -> str:
    """NumPy's name of a type that records call f32, s64, ..."""
    kind = {"s": "int", "u": "uint", "f": "float", "c": "complex"}[dtype[0]]
    return f"{kind}{dtype[1:]}"


def infer_results(
    info: Mapping[str, Any],
    operands: Sequence[tuple[str, Sequence[int]] | None],
    attributes: Mapping[str, Any],
) -> list[tuple[str, tuple[int, ...]]]:
    """Type and sizes of each result, for those of the operands (None: absent) and all attributes.

    Raises ValueError, with the signature, for what the kernel does not take; NotImplementedError without a signature.
    """
    kept: list[Any] = []  # what the structs point to
    buffers = (_Buffer * max(len(operands), 1))()
    for buffer, operand in zip(buffers, operands, strict=False):
        if operand is None:
            continue
        dtype, sizes = operand
        number = dtypes().get(dtype)
        if number is None:
            raise ValueError(f"kernel '{info['name']}': no kernel takes operands of {dtype}")
        array = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
        kept.append(array)
        buffer.sizes = buffer.strides = array
        buffer.rank, buffer.dtype = len(sizes), number
    specs = info["signature"]["attributes"] if info["signature"] else []
    given = (_Attribute * max(len(specs), 1))()
    for attribute, spec in zip(given, specs, strict=False):
        _fill(attribute, spec["name"], spec["kind"], attributes[spec["name"]], kept)
    results, count = (_Shape * _MOST_RANK)(), ctypes.c_uint32()
    _ask(
        _plugin().mydev_pjrt_infer_results,
        *(info["name"].encode(), buffers, len(operands), given, len(specs)),
        *(results, len(results), ctypes.byref(count)),
    )
    names = {number: name for name, number in dtypes().items()}
    return [(names[shape.dtype], tuple(shape.sizes[: shape.rank])) for shape in results[: count.value]]


def _fill(attribute: _Attribute, name: str, kind: str, value: Any, kept: list[Any]) -> None:
    attribute.name, attribute.kind = name.encode(), _KINDS.index(kind)
    if kind in ("bool", "int"):
        attribute.value.i = int(value)
    elif kind == "float":
        attribute.value.f = float(value)
    elif kind == "complex":
        attribute.value.c = tuple(value)
    elif kind == "dictionary":
        entries = (_Attribute * max(len(value), 1))()
        for entry, (key, item) in zip(entries, sorted(value.items()), strict=False):
            _fill(entry, key, _kind_of(item), item, kept)
        _point(attribute, entries, len(value), kept)
    elif kind == "string":
        data = value.encode()
        _point(attribute, ctypes.create_string_buffer(data), len(data), kept)
    else:
        array = np.ascontiguousarray(value)
        attribute.dtype = dtypes()[array.dtype.name] if kind == "array" else 0
        _point(attribute, ctypes.create_string_buffer(array.tobytes()), array.size, kept)


def _point(attribute: _Attribute, memory: Any, count: int, kept: list[Any]) -> None:
    kept.append(memory)
    attribute.count = count
    attribute.value.data = ctypes.addressof(memory)


def _kind_of(value: Any) -> str:
    """The kind of an entry of a dictionary, which has no signature."""
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        return "int"
    if isinstance(value, (float, np.floating)):
        return "float"
    if isinstance(value, str):
        return "string"
    return "dictionary" if isinstance(value, dict) else "array"
