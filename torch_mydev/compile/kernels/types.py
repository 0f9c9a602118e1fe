"""The types of generated kernels, and literals and conversions in their language.

A value has the type that it is computed in: halves are floats, which are rounded when they are stored. In memory a
truth value is a byte, 0 or 1 when it is written, and true when it is read unless it is 0. Conversions are those of the
device's kernels: a number that is out of an integer's range gives what the processor's conversion to a wider integer
gives, cut off.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.utils import upcast_compute_type
from torch._inductor.virtualized import OpsValue

#: The types of elements in memory, by dtype.
MEMORY_TYPES = {
    torch.bool: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}
#: The types of values that kernels compute with, by dtype.
VALUE_TYPES = {**MEMORY_TYPES, torch.bool: "bool", torch.float16: "f32", torch.bfloat16: "f32"}

HALVES = (torch.float16, torch.bfloat16)


def memory_type(dtype: torch.dtype) -> str:
    return _type(MEMORY_TYPES, dtype)


def value_type(dtype: torch.dtype) -> str:
    return _type(VALUE_TYPES, dtype)


def _type(types: dict[torch.dtype, str], dtype: torch.dtype) -> str:
    if dtype not in types:
        raise NotImplementedError(f"generated kernels have no {dtype}")
    return types[dtype]


def is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and dtype is not torch.bool


def literal(value: Any, dtype: torch.dtype) -> str:
    """A number in the type that values of ``dtype`` have, rounded as a conversion rounds it."""
    dtype = upcast_compute_type(dtype)
    if dtype is torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        return _integer(int(value), dtype)
    number = float(value)
    if dtype is torch.float32:
        try:
            (number,) = struct.unpack("f", struct.pack("f", number))
        except OverflowError:
            number = math.copysign(math.inf, number)
    if math.isnan(number):
        return f"NAN_{value_type(dtype)}"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}INFINITY_{value_type(dtype)}"
    text = repr(number) + ("f" if dtype is torch.float32 else "")
    return f"({text})" if text.startswith("-") else text


def _integer(value: int, dtype: torch.dtype) -> str:
    info = torch.iinfo(dtype)
    value = (value - info.min) % (info.max - info.min + 1) + info.min  # as a conversion wraps it
    if value == -(2**63):
        return "(-9223372036854775807L - 1)"
    if dtype is torch.int64:
        text = f"{value}L"
    elif dtype is torch.uint64:
        text = f"{value}UL"
    elif dtype is torch.uint32:
        text = f"{value}u"
    elif value == -(2**31):
        text = "(-2147483647 - 1)"
    else:
        text = str(value)
    return f"({text})" if value < 0 else text


def unwrap(value: Any) -> Any:
    return value.value if isinstance(value, OpsValue) else value


def dtype_of(value: Any) -> torch.dtype:
    """The dtype of an operand: a variable, or a number of Python's."""
    value = unwrap(value)
    if isinstance(value, CSEVariable):
        assert value.dtype is not None, f"{value} has no type"
        return value.dtype
    return {bool: torch.bool, int: torch.int64, float: torch.float32}[type(value)]


def converted(value: Any, dtype: torch.dtype) -> str:
    """An operand as a value of another dtype."""
    value = unwrap(value)
    if not isinstance(value, CSEVariable):
        return literal(value, dtype)
    source, target = value_type(dtype_of(value)), value_type(dtype)
    if source == target:
        return str(value)
    if target == "bool":
        return f"({value} != 0)"
    if source in ("f32", "f64") and target in _BY_WIDER_INTEGER:
        return f"(({target})({_BY_WIDER_INTEGER[target]})({value}))"
    return f"(({target})({value}))"


_BY_WIDER_INTEGER = {"i8": "i32", "i16": "i32", "u8": "i64", "u16": "i64", "u32": "i64"}


def loaded(element: str, dtype: torch.dtype) -> str:
    """The value of an element of memory."""
    if dtype is torch.bool:
        return f"({element} != 0)"
    return f"{memory_type(dtype)}_to_f32({element})" if dtype in HALVES else element


def stored(value: Any, dtype: torch.dtype) -> str:
    """The value as it is stored in an element of memory."""
    text = converted(value, upcast_compute_type(dtype))
    if dtype is torch.bool:
        return f"(u8)({text})"
    return f"f32_to_{memory_type(dtype)}({text})" if dtype in HALVES else text
