"""Reductions: what each thread keeps of them, and how threads combine it.

An accumulator is one or more arrays, an element for each lane. Statements in the loop add values to them; behind it are
results, of the whole group, whose lanes are combined then, or of each lane alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.utils import upcast_compute_type

from torch_mydev.compile.kernels.operators import arithmetic
from torch_mydev.compile.kernels.types import converted, literal, unwrap, value_type


@dataclass(frozen=True)
class Accumulator:
    """One reduction of a kernel."""

    name: str
    arrays: tuple[tuple[str, torch.dtype, str], ...]  #: name, dtype and first value of each
    update: tuple[str, ...]  #: statements of the loop
    combine: str  #: the language's function that combines the arrays of a group's threads into their first elements
    results: tuple[int, ...]  #: the arrays that are results

    def declarations(self, lanes: str) -> list[str]:
        return [f"ACCUMULATOR({value_type(dtype)}, {name}, {first}, {lanes});" for name, dtype, first in self.arrays]

    def combination(self) -> str:
        return f"GROUP({self.combine}, {', '.join(name for name, _, _ in self.arrays)});"

    def result_arrays(self) -> list[tuple[str, torch.dtype]]:
        return [self.arrays[index][:2] for index in self.results]


#: Function that the language has for pairs, and what changes nothing.
_ASSOCIATIVE = {"sum": 0, "prod": 1, "xor_sum": 0}


def make_accumulator(
    name: str, dtype: torch.dtype, source: torch.dtype, reduction: str, value: Any, position: str
) -> Accumulator:
    """``value``: a variable, or several. ``position``: of the value among those that are reduced."""
    dtype, source = upcast_compute_type(dtype), upcast_compute_type(source)
    if reduction in ("welford_reduce", "welford_combine"):
        return _welford(name, dtype, reduction, value)
    if reduction in ("argmax", "argmin"):
        return _position_of_extremum(name, source, reduction, unwrap(value), position)
    lane = f"{name}[lane]"
    if reduction in ("max", "min"):
        text = converted(value, source)
        kind = value_type(source)
        if source is torch.bool:
            kind, source = "u8", torch.uint8
            text = f"(u8)({text})"
        update = f"{lane} = {reduction}_{kind}({lane}, {text});"
        return Accumulator(
            name, ((name, source, _outermost(reduction, source)),), (update,), f"group_{reduction}_{kind}", (0,)
        )
    if reduction == "any":
        update = f"{lane} |= (i32)({converted(value, torch.bool)});"
        return Accumulator(name, ((name, torch.int32, "0"),), (update,), "group_or_i32", (0,))
    if reduction not in _ASSOCIATIVE:
        raise NotImplementedError(f"generated kernels have no reduction {reduction}")
    kind, text = value_type(dtype), converted(value, dtype)
    if reduction == "xor_sum":
        update = f"{lane} ^= {text};"
    else:
        update = f"{lane} = {arithmetic('+' if reduction == 'sum' else '*', lane, text, dtype)};"
    first = literal(_ASSOCIATIVE[reduction], dtype)
    return Accumulator(name, ((name, dtype, first),), (update,), f"group_{reduction}_{kind}", (0,))


def _outermost(reduction: str, dtype: torch.dtype) -> str:
    """The initial value of a maximum or minimum: no value is less, or greater."""
    if dtype.is_floating_point:
        return literal(float("-inf" if reduction == "max" else "inf"), dtype)
    info = torch.iinfo(dtype)
    return literal(info.min if reduction == "max" else info.max, dtype)


def _position_of_extremum(name: str, source: torch.dtype, reduction: str, value: Any, position: str) -> Accumulator:
    extremum = reduction.removeprefix("arg")
    text = converted(value, source)
    if source is torch.bool:
        source, text = torch.uint8, f"(u8)({text})"
    kind = value_type(source)
    arrays = (
        (f"{name}_value", source, _outermost(extremum, source)),
        (f"{name}_at", torch.int64, literal(torch.iinfo(torch.int64).max, torch.int64)),
    )
    update = f"arg{extremum}_{kind}(&{name}_value[lane], &{name}_at[lane], {text}, {position});"
    return Accumulator(name, arrays, (update,), f"group_arg{extremum}_{kind}", (1,))


def _welford(name: str, dtype: torch.dtype, reduction: str, value: Any) -> Accumulator:
    kind = value_type(dtype)
    arrays = tuple((f"{name}_{part}", dtype, literal(0, dtype)) for part in ("mean", "m2", "weight"))
    lanes = ", ".join(f"&{array}[lane]" for array, _, _ in arrays)
    values: Sequence[Any] = value if isinstance(value, (tuple, list)) else (value,)
    operands = ", ".join(converted(each, dtype) for each in values)
    update = f"{reduction}_{kind}({lanes}, {operands});"
    return Accumulator(name, arrays, (update,), f"group_welford_{kind}", (0, 1, 2))
