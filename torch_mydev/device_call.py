"""Operators that a graph compiled for the host leaves to the device: which ones, and their fake kernels.

Such an operator is replaced by its twin in ``torch.ops.mydev_call`` (csrc/aten/device_call.h), which takes CPU tensors
over the device's memory.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.fx import Node
from torch.utils import _pytree as pytree

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.custom_operator import NAMESPACE


def redress(fake: FakeTensor, device: torch.device) -> FakeTensor:
    """A fake tensor on another device, over the same fake storage."""
    with in_kernel_invocation_manager(fake.fake_mode):
        return FakeTensor(fake.fake_mode, fake.detach(), device)


def stays(node: Node) -> OpOverload | None:
    """The twin of a node's operator if that stays a call of the device, else None."""
    target = node.target
    if not isinstance(target, OpOverload) or not _on_device(node):
        return None
    if target.namespace == NAMESPACE or torch.Tag.nondeterministic_seeded in target.tags:
        return twin(target)
    return None


def _on_device(node: Node) -> bool:
    leaves = pytree.tree_leaves((node.args, node.kwargs, node.meta.get("val")))
    for leaf in leaves:
        value = leaf.meta.get("val") if isinstance(leaf, Node) else leaf
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, torch.device) and device.type == DEVICE_NAME:
            return True
    return False


_library = torch.library.Library("mydev_call", "FRAGMENT")


@functools.cache
def twin(op: OpOverload) -> OpOverload:
    """The operator that runs ``op`` on the device from inside a graph of the host."""
    name, _, overload = op.name().partition(".")
    qualified = _C.define_device_call(name, overload)
    device = torch.device(DEVICE_NAME)

    def fake_kernel(*args: Any, **kwargs: Any) -> Any:
        def to_device(value: Any) -> Any:
            return redress(value, device) if isinstance(value, FakeTensor) and value.device.type == "cpu" else value

        def to_host(value: Any) -> Any:
            if not isinstance(value, FakeTensor) or value.device.type != DEVICE_NAME:
                return value
            return redress(value, torch.device("cpu"))

        results = op(*pytree.tree_map(to_device, args), **pytree.tree_map(to_device, kwargs))
        return pytree.tree_map(to_host, results)

    torch.library.register_fake(qualified, fake_kernel, lib=_library)
    namespace, _, short = qualified.partition("::")
    overloads = getattr(getattr(torch.ops, namespace), short)
    found: OpOverload = overloads.default
    return found
