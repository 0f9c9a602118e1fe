"""The nesting of ffi_call's results: a tensor, or lists and tuples of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

#: A tensor, or (shape, dtype); or a list or tuple of them, nested at will, for a tuple result.
ResultSpec: TypeAlias = Any
#: None for a tensor; else the type of the sequence and what is in it.
Structure: TypeAlias = "tuple[type, tuple[Structure, ...]] | None"


def parse_results(target: str, spec: ResultSpec) -> tuple[Structure, list[tuple[Any, Any]]]:
    """The nesting of results, and (shape, dtype) of each."""
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        return None, [(tuple(spec.shape), spec.dtype)]
    if not isinstance(spec, (list, tuple)):
        raise TypeError(
            f"{target}: result_shape_dtypes has a {type(spec).__name__}; give tensors, (shape, dtype), or lists of them"
        )
    if isinstance(spec, tuple) and len(spec) == 2 and _is_dtype(spec[1]):
        shape = (spec[0],) if isinstance(spec[0], int) else tuple(spec[0])
        return None, [(shape, spec[1])]
    parsed = [parse_results(target, item) for item in spec]
    kind = list if isinstance(spec, list) else tuple
    return (kind, tuple(structure for structure, _ in parsed)), [leaf for _, leaves in parsed for leaf in leaves]


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (torch.dtype, str, type)) or hasattr(value, "kind")


def dtype_name(dtype: Any) -> str:
    """The name that torch and numpy give a dtype."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch.")
    return str(getattr(dtype, "name", None) or dtype.__name__).removesuffix("_")


def build(structure: Structure, leaves: Any) -> Any:
    """The structure, with tensors from an iterator."""
    if structure is None:
        return next(leaves)
    kind, items = structure
    return kind([build(item, leaves) for item in items])


def flat_structure(structure: Structure) -> str | None:
    """The structures that a call site can build itself, "single", "tuple" and "list"; None for nested results."""
    if structure is None:
        return "single"
    kind, items = structure
    return kind.__name__ if all(item is None for item in items) else None
