"""Operands, attributes and results of kernels as text, for the command line.

f32[2,3]=1,2,3,4,5,6    s64[]=3    bf16[4,4]=random    f32[8]=zeros|ones|arange    data.npy    none
cap=5.0    dims=[1,2]    exact=true    opaque='1 0 0.5'    opaque=hex:0400    opaque=@file
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mydev.cli.kernels.errors import UsageError
from torch_mydev.custom_call.dtypes import DTYPES, NAMES

_SHAPE = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[\d,\s]*)\]")
_OPERAND = re.compile(_SHAPE.pattern + r"=(?P<value>.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)


@dataclass
class Operands:
    """The arguments of one call."""

    tensors: list[torch.Tensor | None] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)


def parse_shape(text: str) -> tuple[tuple[int, ...], torch.dtype]:
    """The sizes and the dtype of a text like "f32[2,3]"."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is no shape; write it as f32[2,3]")
    if match["dtype"] not in DTYPES:
        raise UsageError(f"'{text}': there is no dtype {match['dtype']}; there are {', '.join(DTYPES)}")
    return tuple(int(size) for size in match["sizes"].split(",") if size.strip()), DTYPES[match["dtype"]]


def random_tensor(sizes: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Normal numbers; of integers those below 10."""
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.promote_types(dtype, torch.float32) if dtype.itemsize > 1 else torch.float32
        return torch.randn(sizes, dtype=wide, generator=generator).to(dtype)
    return torch.randint(0, 10, sizes, generator=generator).to(dtype)


def parse(arguments: list[str], device: str, seed: int = 0) -> Operands:
    """Understands the arguments of `kernels call`; the same text makes the same random numbers."""
    result = Operands()
    generator = torch.Generator().manual_seed(seed)
    for text in arguments:
        operand, attribute = _OPERAND.fullmatch(text), _ATTRIBUTE.fullmatch(text)
        if operand is not None:
            sizes, dtype = parse_shape(text.partition("=")[0])
            result.tensors.append(_tensor(sizes, dtype, operand["value"].strip(), generator).to(device))
        elif attribute is not None:
            result.attributes[attribute["name"]] = parse_attribute(attribute["value"])
        elif text == "none":
            result.tensors.append(None)
        elif text.endswith(".npy"):
            result.tensors.append(torch.from_numpy(_load(text)).to(device))
        else:
            advice = "write operands as f32[2,3]=1,2,… or file.npy, attributes as name=value"
            raise UsageError(f"'{text}' is neither an operand nor an attribute; {advice}")
    return result


def _load(path: str) -> Any:
    try:
        import numpy as np

        return np.load(path, allow_pickle=False)
    except (ImportError, OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def _tensor(sizes: tuple[int, ...], dtype: torch.dtype, value: str, generator: torch.Generator) -> torch.Tensor:
    count = math.prod(sizes)
    match value:
        case "random":
            return random_tensor(sizes, dtype, generator)
        case "zeros":
            return torch.zeros(sizes, dtype=dtype)
        case "ones":
            return torch.ones(sizes, dtype=dtype)
        case "arange":
            return torch.arange(count).to(dtype).reshape(sizes)
    parts = [part for part in value.split(",") if part.strip()]
    try:
        numbers = [parse_number(part) for part in parts]
    except ValueError as error:
        raise UsageError(f"'{value}': {error}; give numbers, random, zeros, ones or arange") from error
    if len(numbers) != count:
        raise UsageError(f"'{value}' are {len(numbers)} numbers for the {count} of shape {list(sizes)}")
    return torch.tensor(numbers, dtype=dtype).reshape(sizes)


def parse_number(text: str) -> bool | int | float | complex:
    """The number that a text says. Raises ValueError."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    try:
        number = complex(text)
    except ValueError:
        raise ValueError(f"'{text}' is no number") from None
    return number if text[-1] in "jJ)" else number.real


def parse_attribute(text: str) -> Any:
    """A number, a list of numbers in brackets, or a string; quotes make a string of what looks like a number."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise UsageError(f"{text[1:]}: {error.strerror}") from error
    try:
        if text.startswith("hex:"):
            return bytes.fromhex(text[4:])
        if text.startswith("[") and text.endswith("]"):
            return [parse_number(part) for part in text[1:-1].split(",") if part.strip()]
    except ValueError as error:
        raise UsageError(f"attribute value '{text}': {error}") from error
    try:
        return parse_number(text)
    except ValueError:
        return text


def describe(tensor: torch.Tensor) -> str:
    """ "f32[2,3]"."""
    return f"{NAMES.get(tensor.dtype, str(tensor.dtype))}[{','.join(map(str, tensor.shape))}]"
