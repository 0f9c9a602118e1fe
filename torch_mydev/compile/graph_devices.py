"""Which devices a graph touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import current_device


def graph_devices(graph: object, example_inputs: Sequence[Any]) -> set[torch.device]:
    """The devices of ours, with their index, that a graph touches, in its inputs or between them."""
    found = set()
    for value in _values(graph, example_inputs):
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, torch.device) and device.type == DEVICE_NAME:
            found.add(torch.device(DEVICE_NAME, current_device() if device.index is None else device.index))
    return found


def several_devices(devices: set[torch.device]) -> str | None:
    """Why a graph that touches these devices cannot be compiled: they are several. None if they are not."""
    return f"one graph has tensors of {' and '.join(sorted(map(str, devices)))}" if len(devices) > 1 else None


def _values(graph: object, example_inputs: Sequence[Any]) -> Iterator[Any]:
    yield from example_inputs
    if not isinstance(graph, GraphModule):
        return
    for module in graph.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            yield from pytree.tree_leaves((node.meta.get("val"), node.meta.get("example_value")))
            yield from pytree.tree_leaves((node.args, node.kwargs))
