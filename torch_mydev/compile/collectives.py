"""Functional collectives in a graph that is compiled for the host.

PyTorch finds what ``wait_tensor`` waits for by the storage of its operand. A device call gives the graph another tensor
over the same memory, so the call waits by itself, and ``wait_tensor`` becomes its operand. Ranks call the collectives
in the order of the graph.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from torch_mydev._device_name import DEVICE_NAME

NAMESPACE = "_c10d_functional"
WAIT = getattr(torch.ops, NAMESPACE).wait_tensor.default

_library = torch.library.Library("mydev_collective", "FRAGMENT")  # type: ignore[no-untyped-call]


@functools.cache
def waited(collective: OpOverload) -> OpOverload:
    """The operator that runs a functional collective and waits for all of its results."""
    name, _, overload = str(collective.name()).partition("::")[2].partition(".")  # type: ignore[no-untyped-call]
    full_name = f"{name}.{overload}" if overload else name
    _library.define(full_name + str(collective._schema)[str(collective._schema).index("(") :])  # type: ignore[no-untyped-call]

    def run(*arguments: Any, **options: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, WAIT, collective(*arguments, **options))

    _library.impl(full_name, run, "PrivateUse1")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"mydev_collective::{full_name}", collective, lib=_library)
    operator: OpOverload = getattr(getattr(torch.ops.mydev_collective, name), overload or "default")
    return operator


def remove_wait(node: Node) -> None:
    """Removes a ``wait_tensor`` for a tensor of the device: it is there."""
    (operand,) = node.all_input_nodes
    if operand.meta["val"].device.type == DEVICE_NAME:
        node.replace_all_uses_with(operand)
        node.graph.erase_node(node)
