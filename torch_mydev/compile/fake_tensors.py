"""Fake tensors of the device in terms of the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.utils import _pytree as pytree

from torch_mydev._device_name import DEVICE_NAME

CPU = torch.device("cpu")


def retarget(fake: FakeTensor, device: torch.device) -> FakeTensor:
    """A fake tensor on another device, over the same fake storage."""
    with in_kernel_invocation_manager(fake.fake_mode):
        return FakeTensor(fake.fake_mode, fake.detach(), device)


def retarget_all(values: Any, from_type: str, to: torch.device) -> Any:
    """Nested values, in which fake tensors on devices of one type have been moved to another device."""

    def move(value: Any) -> Any:
        return retarget(value, to) if isinstance(value, FakeTensor) and value.device.type == from_type else value

    return pytree.tree_map(move, values)


def as_on_cpu(fake_kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A fake kernel of torch's own registry that answers, for tensors of the device, what it answers for the CPU's."""

    def kernel(fake_mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        devices = {
            leaf.device
            for leaf in pytree.tree_leaves((args, kwargs))
            if isinstance(leaf, FakeTensor) and leaf.device.type == DEVICE_NAME
        }
        if not devices:
            return fake_kernel(fake_mode, op, *args, **kwargs)
        args, kwargs = retarget_all((args, kwargs), DEVICE_NAME, CPU)
        return retarget_all(fake_kernel(fake_mode, op, *args, **kwargs), "cpu", devices.pop())

    return kernel
