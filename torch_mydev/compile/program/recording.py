"""Recording the calls of a graph: each operator is called while a recorder takes what it launches.

So each operator's own code is its lowering (csrc/aten/graph/recorded_function.h). If an operator cannot be recorded,
its PyTorch decomposition is recorded. A call for which both fail has to run outside of the program.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_mydev.compile.program import schedule

T = TypeVar("T")
Values = dict[Node, Any]


class Unrecordable(Exception):
    """A call of a recorded partition has to run outside of it."""

    def __init__(self, node: Node | None, reason: str) -> None:
        super().__init__(reason if node is None else f"{node.target}: {reason}")
        self.node = node  #: None: all calls of the partition have to


def record_calls(nodes: Sequence[Node], values: Values, decomposed: set[Node]) -> None:
    """Makes the calls, with stand-ins for the tensors of the device among the values, and adds their values."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        for node in nodes:
            values[node] = _record_call(node, values, node in decomposed)


def with_decompositions(record: Callable[[], T], decomposed: set[Node]) -> T:
    """Calls ``record``, which makes the calls. Adds to ``decomposed`` those that it could not record whole."""
    while True:
        try:
            made = record()
            break
        except Unrecordable as problem:
            if problem.node is None or problem.node in decomposed or _decomposition(problem.node) is None:
                raise
            decomposed.add(problem.node)
    return made


def split(nodes: list[Node], problem: Unrecordable) -> list[tuple[bool, list[Node]]]:
    """Divides the calls of a partition that has one that cannot be recorded, as schedule() divides those of a graph."""
    if problem.node is None:
        return [(False, nodes)]
    place = nodes.index(problem.node)
    before, after = nodes[:place], nodes[place + 1 :]
    # The calls that take a list apart stay with the call that made it.
    apart = [node for node in after if node.target is operator.getitem and _source(node) in before]
    taken = [node for node in after if _source(node) is problem.node and node.target is operator.getitem]
    rest = [node for node in after if node not in {*apart, *taken}]
    partitions = [(True, before + apart), (False, [problem.node, *taken]), (True, rest)]
    return [partition for partition in partitions if partition[1]]


def _source(node: Node) -> Node | None:
    return node.all_input_nodes[0] if node.all_input_nodes else None


def _record_call(node: Node, values: Values, decomposed: bool) -> Any:
    try:
        value = schedule.evaluate(node, values, _decomposition(node) if decomposed else None)
    except Exception as error:
        raise Unrecordable(node, str(error)) from error
    if decomposed and not _lies_as_traced(value, node):
        raise Unrecordable(node, "its decomposition gives other strides")
    return value


@functools.cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions())


def _decomposition(node: Node) -> Callable[..., Any] | None:
    """The decomposition of an operator. None for one that draws random numbers, since it would draw others."""
    if isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
        return None
    return _decompositions().get(node.target)


def _lies_as_traced(value: Any, node: Node) -> bool:
    made = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    traced = schedule.tensors_of(node)
    return len(made) == len(traced) and all(
        not all(isinstance(stride, int) for stride in expected.stride()) or actual.stride() == expected.stride()
        for actual, expected in zip(made, traced, strict=True)
    )
