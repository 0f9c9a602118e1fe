"""Attributes of ffi_call as text, so that a graph can carry them."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from typing import Any

import torch

from torch_mydev.custom_call.ffi.constants import constant_in_graphs


@constant_in_graphs
def encode_attributes(attributes: Mapping[str, Any]) -> str:
    """Attributes as JSON, each with its type, so that a graph can carry them."""
    return json.dumps({name: _encode(name, value) for name, value in attributes.items()}) if attributes else ""


def _encode(name: str, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        raise TypeError(f"attribute '{name}' is a tensor; tensors are operands: give them by position")
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, Mapping):
        return ["dict", {key: _encode(key, item) for key, item in value.items()}]
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return ["numpy", value.dtype.name, list(value.shape), base64.b64encode(value.tobytes()).decode()]
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, (bool, int, float, str)):
        return ["python", value]
    raise TypeError(
        f"attribute '{name}' is a {type(value).__name__}; give bool, int, float, str, bytes, a dict, or numpy's "
        "scalars and arrays (np.array(x) for a list)"
    )


@functools.lru_cache(maxsize=1024)
def decode_attributes(text: str) -> dict[str, Any]:
    """The attributes that encode_attributes wrote."""
    return {name: _decode(value) for name, value in json.loads(text).items()} if text else {}


def _decode(encoded: list[Any]) -> Any:
    kind, *rest = encoded
    if kind == "bytes":
        return base64.b64decode(rest[0])
    if kind == "dict":
        return {name: _decode(value) for name, value in rest[0].items()}
    if kind == "numpy":
        import numpy as np

        name, shape, data = rest
        return np.frombuffer(base64.b64decode(data), _numpy_dtype(name)).reshape(shape)
    return complex(*rest) if kind == "complex" else rest[0]


def _numpy_dtype(name: str) -> Any:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]  # the attribute came from it

        return np.dtype(getattr(ml_dtypes, name))
