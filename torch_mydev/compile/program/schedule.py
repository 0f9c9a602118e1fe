"""Which operators of a graph go into programs, and in which order all of them run.

A graph of AOTAutograd's is functional, but for what it writes at its end. So an order is right if values come before
their uses, and writes of memory between its earlier and its later uses. Calls that draw random numbers or have effects
must keep their order among themselves. One such order is chosen, with few changes between programs and calls outside of
them.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from torch_mydev.custom_call.operators import NAMESPACE as CUSTOM_CALLS

aten = torch.ops.aten

#: The operators of these only give work to the device. Others may do what they like on the host, at each call.
_NAMESPACES = {"aten", "prims", CUSTOM_CALLS}

#: These say where in a storage to look; a program does not know where in its storage an input lies.
_BY_STORAGE = {aten.as_strided.default, aten.as_strided_.default, aten.as_strided_scatter.default}


def tensors_of(node: Node) -> list[torch.Tensor]:
    """The tensors that a node gives, as they were traced."""
    return [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]


def is_host_number(tensor: torch.Tensor) -> bool:
    """Whether it is one number on the CPU, which operators of a device take beside its tensors."""
    return tensor.device.type == "cpu" and tensor.dim() == 0


def is_recordable(node: Node, device: torch.device) -> bool:
    """Whether a call may become steps of a program of the device, as far as its traced tensors tell."""
    if isinstance(node.target, HigherOrderOperator):
        return False
    made = tensors_of(node)
    given = [tensor for source in node.all_input_nodes for tensor in tensors_of(source)]
    if node.target is operator.getitem:
        return all(tensor.device == device for tensor in given)
    if not isinstance(node.target, OpOverload):  # arithmetic of sizes
        return not made
    if node.target.namespace not in _NAMESPACES:
        return False
    if node.target in _BY_STORAGE and any(map(_is_of_input, node.all_input_nodes)):
        return False
    written = [tensor for source in written_by(node) for tensor in tensors_of(source)]
    return (
        all(tensor.device == device for tensor in [*made, *written])
        and all(tensor.device == device or is_host_number(tensor) for tensor in given)
        and (bool(made) or bool(written) or not given)
    )


def _is_of_input(node: Node) -> bool:
    """Whether it has the memory of an input, as far as the graph shows."""
    while isinstance(node.target, OpOverload) and node.target.is_view:
        node = node.all_input_nodes[0]
    return node.op in ("placeholder", "get_attr")


def written_by(node: Node) -> list[Node]:
    """The arguments that an operator's schema says are written."""
    if not isinstance(node.target, OpOverload):
        return []
    written: list[Node] = []
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
        written += [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Node)]
    return written


def _has_effects(node: Node) -> bool:
    if not isinstance(node.target, OpOverload):
        return isinstance(node.target, HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in node.target.tags or node.target.namespace not in _NAMESPACES


def storages_of(node: Node) -> set[int]:
    """The storages of a node's tensors, as they were traced."""
    return {int(tensor.untyped_storage()._cdata) for tensor in tensors_of(node) if tensor.layout is torch.strided}


def _predecessors(nodes: Sequence[Node]) -> dict[Node, set[Node]]:
    """The earlier calls that must come before each call."""
    before: dict[Node, set[Node]] = {node: set() for node in nodes}
    last_effect: Node | None = None
    last_write: dict[int, Node] = {}
    uses: dict[int, list[Node]] = {}  # of a storage, since it was written
    for node in nodes:
        before[node].update(source for source in node.all_input_nodes if source in before)
        if _has_effects(node):
            if last_effect is not None:
                before[node].add(last_effect)
            last_effect = node
        written = {storage for source in written_by(node) for storage in storages_of(source)}
        for storage in {storage for source in (node, *node.all_input_nodes) for storage in storages_of(source)}:
            if storage in last_write:
                before[node].add(last_write[storage])
            if storage in written:
                before[node].update(uses.pop(storage, ()))
                last_write[storage] = node
            else:
                uses.setdefault(storage, []).append(node)
    return before


def schedule(nodes: Sequence[Node], recordable: set[Node]) -> Iterator[tuple[bool, list[Node]]]:
    """Divides the calls of a graph into partitions: whether each is recorded, and its calls, in their order."""
    waiting = _predecessors(nodes)
    followers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node, earlier in waiting.items():
        for each in earlier:
            followers[each].append(node)
    place = {node: index for index, node in enumerate(nodes)}
    ready: dict[bool, list[int]] = {False: [], True: []}
    for node in nodes:
        if not waiting[node]:
            heapq.heappush(ready[node in recordable], place[node])
    recorded = False
    while ready[False] or ready[True]:
        partition: list[Node] = []
        while ready[recorded]:
            node = nodes[heapq.heappop(ready[recorded])]
            partition.append(node)
            for follower in followers[node]:
                waiting[follower].discard(node)
                if not waiting[follower]:
                    heapq.heappush(ready[follower in recordable], place[follower])
        if partition:
            yield recorded, partition
        recorded = not recorded


def evaluate(node: Node, values: dict[Node, Any], call: Any = None) -> Any:
    """The result of a call for the values of its arguments. ``call`` is called in place of its target."""
    arguments, named = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
    function: Any = call or node.target
    return function(*arguments, **named)
