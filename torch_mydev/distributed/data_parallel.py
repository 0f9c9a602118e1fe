"""torch.nn.DataParallel and torch.nn.parallel.comm on the device: the functions that they ask torch._C for.

Devices are indices, -1 is the CPU, as in torch.nn.parallel.comm, which documents each function. Tensors are copied one
by one, on the current streams of their devices.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torch_mydev._device_name import DEVICE_NAME


def _device_at(index: int) -> torch.device:
    return torch.device("cpu") if index == -1 else torch.device(DEVICE_NAME, index)


def _moved(tensor: Tensor, index: int, *, copy: bool = False) -> Tensor:
    """The tensor on that device. Readers there need not wait; a copy on the CPU is complete."""
    return tensor.to(_device_at(index), non_blocking=index != -1, copy=copy)


def _fill(out: Tensor, value: Tensor) -> None:
    if out.size() != value.size():
        raise ValueError(f"a result of size {tuple(out.size())} is given for values of size {tuple(value.size())}")
    out.copy_(value, non_blocking=out.device.type != "cpu")


def _require_first(what: str, tensors: Sequence[Tensor], devices: Sequence[int]) -> None:
    """Raises unless the first device is that of the tensors."""
    for tensor in tensors:
        if not devices or tensor.device != _device_at(devices[0]):
            names = ", ".join(str(_device_at(index)) for index in devices) or "none"
            raise RuntimeError(
                f"{what}: a tensor is on {tensor.device}; its device must be the first of the devices {names}"
            )


def broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """The tensor on each device. If it is not on the host, it must be on the first one, and is not copied there."""
    if tensor.device.type != DEVICE_NAME:
        return [_moved(tensor, index, copy=True) for index in devices]
    _require_first("broadcast", [tensor], devices)
    return [tensor, *(_moved(tensor, index, copy=True) for index in devices[1:])]


def broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> Sequence[Tensor]:
    for each in out:
        _fill(each, tensor)
    return out


@torch.no_grad()
def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
    """The tensors on each device, by device."""
    _require_first("broadcast_coalesced", tensors, devices)
    copies = [[_moved(tensor, index, copy=True) for tensor in tensors] for index in devices[1:]]
    return [list(tensors), *copies]


def scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[torch.Stream | None] | None,
) -> list[Tensor]:
    """A stream, where there is one, is that which copies the chunk."""
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    elif len(chunk_sizes) == len(devices):
        chunks = tensor.split(list(chunk_sizes), dim)  # type: ignore[no-untyped-call]
    else:
        raise ValueError(f"scatter: there are {len(devices)} devices, but {len(chunk_sizes)} chunk sizes")
    results = []
    for place, chunk in enumerate(chunks):
        with (streams and streams[place]) or contextlib.nullcontext():
            results.append(_moved(chunk, devices[place]))
    return results


def scatter_out(
    tensor: Tensor, out: Sequence[Tensor], dim: int, streams: Sequence[torch.Stream | None] | None
) -> Sequence[Tensor]:
    chunks = tensor.split([each.size(dim) for each in out], dim)  # type: ignore[no-untyped-call]
    for place, chunk in enumerate(chunks):
        with (streams and streams[place]) or contextlib.nullcontext():
            _fill(out[place], chunk)
    return out


def _require_on_device(tensors: Sequence[Tensor]) -> None:
    for place, tensor in enumerate(tensors):
        if tensor.device.type != DEVICE_NAME:
            raise RuntimeError(f"gather: tensor {place} is on {tensor.device}, and all must be on {DEVICE_NAME}")


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    """The tensors in one, on the destination or, without one, on the current device."""
    _require_on_device(tensors)
    index = torch.accelerator.current_device_index() if destination is None else destination
    return torch.cat([_moved(tensor, index) for tensor in tensors], dim)


def gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    _require_on_device(tensors)
    for part, tensor in zip(out.split([tensor.size(dim) for tensor in tensors], dim), tensors, strict=True):  # type: ignore[no-untyped-call]
        _fill(part, tensor)
    return out


#: The functions, by their names in torch._C.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_broadcast": broadcast,
    "_broadcast_out": broadcast_out,
    "_broadcast_coalesced": broadcast_coalesced,
    "_scatter": scatter,
    "_scatter_out": scatter_out,
    "_gather": gather,
    "_gather_out": gather_out,
}


def has_device_tensors(arguments: Any) -> bool:
    """Whether a tensor among them, or in what they hold, is on the device."""
    return DEVICE_NAME in _device_types(arguments)


def _device_types(arguments: Any) -> set[str]:
    return {leaf.device.type for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)}


def is_meant(arguments: Any) -> bool:
    """Whether indices in a call mean this device: if a tensor is on it, or if it is the one that torch would choose."""
    types = _device_types(arguments)
    if not types <= {"cpu", DEVICE_NAME}:
        return False
    return DEVICE_NAME in types or torch._utils._get_available_device_type() == DEVICE_NAME  # type: ignore[no-untyped-call]


def with_device(theirs: Callable[..., Any] | None, ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch._C's that takes calls for the device. ``theirs``: torch's own, of a build with CUDA."""
    if theirs is None:
        return ours

    @functools.wraps(theirs)
    def function(*args: Any) -> Any:
        return (ours if is_meant(args) else theirs)(*args)

    return function


def is_on_cpu(module: torch.nn.Module) -> bool:
    """Whether all that it has of tensors is there."""
    return all(tensor.device.type == "cpu" for tensor in chain(module.parameters(), module.buffers()))
