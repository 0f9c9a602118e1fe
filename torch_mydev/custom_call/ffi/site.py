"""Call sites: all that is constant about an ffi_call, as text that a graph can carry, and as a builtin function."""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from torch_mydev import _C
from torch_mydev.custom_call.ffi.constants import constant_in_graphs

FfiCall: TypeAlias = Callable[..., Any]


@constant_in_graphs
def options_text(
    target: str,
    dtypes: list[str],
    ranks: list[int],
    *,
    is_tuple: bool,
    api_version: int,
    opaque: str | bytes | None,
    input_layouts: Any,
    output_layouts: Any,
    aliases: Mapping[int, int] | None,
    vmap_method: str | None,
) -> str:
    """All that is constant about a call site."""
    if vmap_method not in (None, "sequential", "expand_dims", "broadcast_all"):
        raise ValueError(
            f"{target}: vmap_method is {vmap_method!r}; give 'sequential', 'expand_dims' or 'broadcast_all'"
        )
    if not isinstance(api_version, int):
        raise TypeError(f"{target}: custom_call_api_version is {api_version!r}; give 1, 2, 3 or 4")
    if not isinstance(opaque, (str, bytes, type(None))):
        raise TypeError(f"{target}: legacy_backend_config is a {type(opaque).__name__}; give str or bytes")
    if output_layouts is not None and not is_tuple:
        output_layouts = [output_layouts]
    if output_layouts is not None and len(output_layouts) != len(dtypes):
        raise ValueError(f"{target}: {len(output_layouts)} output_layouts for {len(dtypes)} results")
    opaque = opaque.encode() if isinstance(opaque, str) else opaque
    options = {
        "dtypes": dtypes,
        "ranks": ranks,
        "tuple": is_tuple,
        "api_version": api_version,
        "opaque": None if opaque is None else base64.b64encode(opaque).decode(),
        "input_layouts": _layouts(target, "input_layouts", input_layouts or ()),
        "output_layouts": _layouts(target, "output_layouts", output_layouts or [()] * len(dtypes)),
        "aliases": _alias_pairs(target, aliases or {}),
        "vmap_method": vmap_method,
    }
    return json.dumps(options, sort_keys=True)


def _layouts(target: str, what: str, layouts: Any) -> list[list[int]]:
    try:
        return [[operator.index(dimension) for dimension in layout or ()] for layout in layouts]
    except TypeError:
        raise TypeError(
            f"{target}: {what} is {layouts!r}; give the order of its dimensions in memory, as (1, 0), for each, or None"
        ) from None


def _alias_pairs(target: str, aliases: Any) -> list[list[int]]:
    pairs = list(aliases.items()) if isinstance(aliases, Mapping) else None
    if pairs is None or not all(isinstance(index, int) and index >= 0 for pair in pairs for index in pair):
        raise TypeError(
            f"{target}: input_output_aliases is {aliases!r}; give a dict from indices of operands to those of results"
        )
    return [list(pair) for pair in pairs]


def make_site(target: str, text: str, sizes: tuple[int, ...], structure: str, dispatch: FfiCall) -> FfiCall:
    """The builtin that calls the kernel; ``dispatch`` is called where PyTorch has to see the call."""
    options = json.loads(text)
    left = iter(sizes)
    results = []
    for name, rank, layout in zip(options["dtypes"], options["ranks"], options["output_layouts"], strict=True):
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"{target}: result_shape_dtypes has dtype {name!r}, which torch does not know")
        shape = [next(left) for _ in range(rank)]
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"{target}: result_shape_dtypes has shape {tuple(shape)}; sizes are integers of 0 or more")
        results.append((dtype, shape, layout))
    opaque = options["opaque"]
    site: FfiCall = _C.ffi_call_site(
        target,
        results,
        structure,
        options["tuple"],
        options["api_version"],
        None if opaque is None else base64.b64decode(opaque),
        options["input_layouts"],
        [tuple(pair) for pair in options["aliases"]],
        dispatch,
    )
    return site
