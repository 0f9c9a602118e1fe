"""Who allocated what, and when: the history of device memory, in the form that PyTorch's memory viewer reads.

The functions are those of ``torch.cuda.memory``: ``_record_memory_history()``, then the program, then
``_dump_snapshot("file.pickle")``. https://pytorch.org/memory_viz and ``python -m torch.cuda._memory_viz`` show it.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import DeviceLike, device_index, init

_STACKS = (None, "state", "alloc", "all")
_ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot", "annotate")
Frames = list[dict[str, Any]]


def _check(name: str, value: object, allowed: Iterable[object]) -> None:
    if value not in tuple(allowed):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "python",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
    skip_actions: Iterable[str] | None = None,
) -> None:
    """Begins, or with ``enabled=None`` ends, recording what the allocator does, on all devices.

    ``enabled="state"`` keeps who allocated what is alive, ``"all"`` the last ``max_entries`` events of each device too.
    ``context`` says for which of them stacks are kept: those that are alive, also past allocations, also frees.
    ``stacks="all"`` adds C++ frames. ``skip_actions`` leaves out events by name. Costs some microseconds an allocation.
    """
    _check("enabled", enabled, (None, "state", "all"))
    _check("context", context, _STACKS)
    _check("stacks", stacks, ("python", "all"))
    skipped = set(skip_actions or ())
    for action in skipped:
        _check("skip_actions", action, _ACTIONS)
    if not isinstance(max_entries, int) or max_entries < 0:
        raise ValueError(f"max_entries must be an int of at least 0, not {max_entries!r}")
    if device is not None:
        device_index(device)
    init()
    _C.record_memory_history(
        enabled is not None,
        enabled == "all",
        _STACKS.index(context),
        stacks == "all",
        max_entries,
        skipped,
        clear_history,
    )


def _snapshot(device: DeviceLike = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The state of the allocator and its history, under the keys of ``torch.cuda.memory._snapshot``.

    ``"segments"``, with the blocks' ``"frames"`` where they were recorded; ``"device_traces"``, events of each device;
    ``"allocator_settings"``. It is of all devices, but for the segments, of ``device`` if one is given. With
    ``augment_with_fx_traces`` frames in the code of graphs say from which lines of the model these come.
    """
    init()
    traces, live = _C.memory_history()
    index = None if device is None else device_index(device)
    segments = [segment for segment in _C.memory_snapshot() if index is None or segment["device"] == index]
    for segment in segments:
        segment["frames"] = []
        for block in segment["blocks"]:
            block["frames"] = live.get((segment["device"], block["address"]), [])
    snapshot: Any = {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": _C.allocator_settings(),
        "external_annotations": [],
    }
    if augment_with_fx_traces:
        torch._utils._augment_memory_snapshot_stack_traces(snapshot)
    return cast("dict[str, Any]", snapshot)


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes :func:`_snapshot` to a file for PyTorch's memory viewer."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _set_memory_metadata(metadata: str | dict[str, Any]) -> None:
    """Has the events of the calling thread carry this text as their ``"user_metadata"``; ``""`` ends it.

    A dictionary is kept as JSON.
    """
    _C.set_memory_metadata(json.dumps(metadata, separators=(",", ":")) if isinstance(metadata, dict) else metadata)


def _get_memory_metadata() -> str:
    """The text that the events of the calling thread carry; ``""`` for none."""
    text: str = _C.memory_metadata()
    return text


def _annotate_tensor(tensor: torch.Tensor, metadata: str) -> None:
    """Records an event ``"annotate"`` about the memory of a tensor, at the address at which its storage begins."""
    if tensor.device.type != DEVICE_NAME:
        raise ValueError(f"expected a tensor of {DEVICE_NAME}, but this one is on {tensor.device}")
    _C.annotate_memory(tensor, metadata)


def _allocation_traceback(data_ptr: int) -> Frames | None:
    """The frames that allocated the memory at an address, where a live allocation begins and they were recorded."""
    init()
    _traces, live = _C.memory_history()
    return next((frames for (_index, address), frames in live.items() if address == data_ptr), None)


def attach_out_of_memory_observer(observer: Callable[[int, int, int, int], object]) -> None:
    """Has ``observer(device, asked, total, free)`` called, in bytes, at each allocation that fails, before the error.

    It may look at the memory (:func:`_snapshot`), and stays for the process. An error that it raises is printed.
    """
    if not callable(observer):
        raise TypeError(f"the observer must be callable, not {observer!r}")
    _C.attach_out_of_memory_observer(observer)
