"""torch.vmap of a custom call, by the method that its record or its caller names.

"sequential" calls the kernel once per element. "expand_dims" and "broadcast_all" call it once with the batch as the
first dimension: operands without a batch get a first dimension of 1, or of the batch's size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map, tree_map_only


def apply(
    method: str,
    size: int,
    in_dims: Sequence[Any],
    operands: Sequence[Any],
    *,
    call: Callable[..., Any],
    call_batch: Callable[..., Any],
    fake: Callable[..., Any],
) -> tuple[Any, Any]:
    """Results with the batch as their first dimension, and where they have it.

    Operands are tensors, None, or lists of them, and ``in_dims`` is shaped alike. ``call`` is for one element,
    ``call_batch`` for all of them, ``fake`` gives empty tensors of the shapes that ``call`` would give.
    """
    batched = _each(_batch_first, operands, in_dims)
    if size == 0:  # there is nothing to call it with
        results = fake(*_each(_element, operands, batched))
        results = tree_map_only(torch.Tensor, lambda x: x.new_empty(0, *x.shape), results)
    elif method == "sequential":
        each = [call(*_each(functools.partial(_pick, i=i), operands, batched)) for i in range(size)]
        results = None if each[0] is None else tree_map(lambda *parts: torch.stack(parts), *each)
    else:
        width = size if method == "broadcast_all" else 1
        results = call_batch(*_each(functools.partial(_widen, width=width), operands, batched))
    return results, None if results is None else tree_map(lambda _: 0, results)


def of_one_rank(operands: Sequence[Any], in_dims: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Operands whose elements have as many dimensions, so that they are broadcast as without a batch; batches first."""
    batched = _each(_batch_first, operands, in_dims)
    elements = [*zip(operands, batched, strict=True)]
    rank = max((x.dim() if b is None else b.dim() - 1 for x, b in elements if x is not None), default=0)

    def widened(value: Any, batch: Any) -> Any:
        whole = value if batch is None else batch
        at = 0 if batch is None else 1
        return whole[(slice(None),) * at + (None,) * (rank + at - whole.dim())] if value is not None else None

    return tuple(_each(widened, operands, batched)), tuple(None if batch is None else 0 for batch in batched)


def _each(function: Callable[[Any, Any], Any], value: Any, other: Any) -> Any:
    """The function's result for the two; for lists, those of their elements."""
    if isinstance(value, (list, tuple)):
        return [_each(function, x, y) for x, y in zip(value, other, strict=True)]
    return function(value, other)


def _batch_first(value: Any, dim: Any) -> Any:
    """The value with the batch as its first dimension; None if it has no batch."""
    return None if dim is None else value.movedim(dim, 0)


def _pick(value: Any, batched: Any, i: int) -> Any:
    return value if batched is None else batched[i]


def _widen(value: Any, batched: Any, width: int) -> Any:
    return batched if batched is not None or value is None else value.expand(width, *value.shape)


def _element(value: Any, batched: Any) -> Any:
    """One without values: what a batch of none would have."""
    return value if batched is None else batched.new_empty(batched.shape[1:])
