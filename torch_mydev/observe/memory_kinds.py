"""Device memory over time, by what it is for.

The history of the allocator has the allocations; what each is for follows from where it was made and how long it lives:

* parameter, optimizer: the addresses of an optimizer's parameters and state, and of parameters that are alive at the
  end; and what an optimizer makes and keeps
* gradient: what a backward pass makes and leaves; activation: what is made before a backward pass and goes with it
* temporary: what goes in the pass that made it; other: the rest, such as data

Backward passes are recognized by the frames of their allocations: autograd's engine, or none on a thread of the engine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.memory import memory_snapshot
from torch_mydev.device.memory_history import _record_memory_history, _snapshot

KINDS = ("parameter", "gradient", "activation", "optimizer", "temporary", "other")
_MOST_EVENTS = 200_000  #: of each device; earlier ones are dropped
_MOST_POINTS = 1_000
_MARKED_STEPS = 2  #: of an optimizer: the state is there after the first

Mark = tuple[int, int, str]  #: time in microseconds, address, kind


@dataclass(frozen=True)
class LiveRange:
    """One allocation, in microseconds since 1970."""

    kind: str
    begin: int
    end: int | None  #: None: alive at the end
    size: int


@dataclass(frozen=True)
class MemoryLine:
    """The memory of one device over time."""

    device: int
    points: list[tuple[int, list[int]]]  #: microseconds since 1970, and bytes by kind, where the most was in use
    peak: list[int]  #: bytes by kind, when most was in use
    events: int
    complete: bool  #: all events since the beginning were kept


class MemoryRecording:
    """Records what the allocator does, and which addresses are an optimizer's, inside a ``with`` block."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._steps: dict[int, int] = {}
        self.lines: list[MemoryLine] = []

    def __enter__(self) -> MemoryRecording:
        _record_memory_history("all", context="alloc", max_entries=_MOST_EVENTS, clear_history=True)
        self._hooks = [
            torch_optimizer.register_optimizer_step_pre_hook(self._before_step),
            torch_optimizer.register_optimizer_step_post_hook(self._after_step),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        parameters = (value for value in gc.get_objects() if type(value) is torch.nn.Parameter)
        self._mark("parameter", parameters)
        alive = [
            (segment["device"], block["address"], block["size"])
            for segment in memory_snapshot()
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        for device, events in enumerate(_snapshot()["device_traces"]):
            of_device = [(address, size) for index, address, size in alive if index == device]
            if events or of_device:
                ranges = list(live_ranges_of(events, of_device, self._marks))
                self.lines.append(line_of(device, ranges, len(events), len(events) < _MOST_EVENTS))
        _record_memory_history(None)

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        steps = self._steps.get(id(optimizer), 0)
        self._steps[id(optimizer)] = steps + 1
        if steps < _MARKED_STEPS:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self._mark("parameter", parameters)
            self._mark("gradient", [p.grad for p in parameters])

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._steps.get(id(optimizer), 0) <= _MARKED_STEPS:
            self._mark("optimizer", [value for state in optimizer.state.values() for value in state.values()])

    def _mark(self, kind: str, values: Any) -> None:
        now = time.time_ns() // 1000
        for value in values:
            if isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME and value.layout == torch.strided:
                self._marks.append((now, value.untyped_storage().data_ptr(), kind))


# --- live ranges ------------------------------------------------------------------------------------------------------


@dataclass
class _Allocation:
    address: int
    size: int
    phase: str
    begin: int
    position: int
    end: int | None = None
    end_position: int = 0


def _phase(frames: Sequence[dict[str, Any]]) -> str:
    for frame in frames:
        if frame["name"] == "_engine_run_backward":
            return "backward"
        if frame["name"] == "step" and "/torch/optim/" in frame["filename"]:
            return "optimizer"
    return "forward" if frames else "backward"


def live_ranges_of(
    events: Sequence[dict[str, Any]], alive: Sequence[tuple[int, int]], marks: Sequence[Mark]
) -> Iterator[LiveRange]:
    """The allocations of a device: those of the events, and earlier ones, which were freed in them or are alive."""
    start = events[0]["time_us"] if events else 0
    done: list[_Allocation] = []
    live: dict[int, _Allocation] = {}
    runs, others, forwards = [0], [0], [0]  # up to each event: backward passes begun, allocations not of one, forward's
    was_backward = False
    for position, event in enumerate(events, 1):
        phase = ""
        if event["action"] == "alloc":
            phase = _phase(event["frames"])
            live[event["addr"]] = _Allocation(event["addr"], event["size"], phase, event["time_us"], position)
        elif event["action"] == "free_requested":
            found = live.pop(event["addr"], None) or _Allocation(event["addr"], event["size"], "earlier", start, 0)
            found.end, found.end_position = event["time_us"], position
            done.append(found)
        runs.append(runs[-1] + (phase == "backward" and not was_backward))
        others.append(others[-1] + (phase in ("forward", "optimizer")))
        forwards.append(forwards[-1] + (phase == "forward"))
        was_backward = phase == "backward" if phase else was_backward
    earlier = [_Allocation(*block, "earlier", start, 0) for block in alive if block[0] not in live]
    of_address: dict[int, list[Mark]] = {}
    for mark in marks:
        of_address.setdefault(mark[1], []).append(mark)
    for one in [*done, *live.values(), *earlier]:
        kind = _marked(one, of_address.get(one.address, ()))
        if not kind:
            last = one.end_position if one.end is not None else len(events)
            passes = runs[last] - runs[one.position]
            stays = one.end is None
            if one.phase == "backward":
                kind = "gradient" if stays or others[last] > others[one.position] else "temporary"
            elif one.phase == "optimizer":
                kind = "optimizer" if stays or forwards[last] > forwards[one.position] else "temporary"
            elif stays or passes > 1 or one.phase == "earlier":
                kind = "other"
            else:
                kind = "activation" if passes else "temporary"
        yield LiveRange(kind, one.begin, one.end, one.size)


def _marked(one: _Allocation, marks: Sequence[Mark]) -> str:
    for when, _, kind in marks:
        if one.begin <= when and (one.end is None or when <= one.end):
            return kind
    return ""


# --- the line ---------------------------------------------------------------------------------------------------------


def line_of(device: int, ranges: Sequence[LiveRange], events: int, complete: bool) -> MemoryLine:
    """At most _MOST_POINTS points, each where most was in use since the one before it."""
    changes = [(one.begin, KINDS.index(one.kind), one.size) for one in ranges]
    changes += [(one.end, KINDS.index(one.kind), -one.size) for one in ranges if one.end is not None]
    changes.sort(key=lambda change: change[:1])
    first, last = (changes[0][0], changes[-1][0]) if changes else (0, 0)
    width = (last - first) // _MOST_POINTS + 1
    now = [0] * len(KINDS)
    points: list[tuple[int, list[int]]] = []
    peak = list(now)
    for when, kind, size in changes:
        now[kind] += size
        total = sum(now)
        if not points or when // width != points[-1][0] // width:
            points.append((when, list(now)))
        elif total > sum(points[-1][1]):
            points[-1] = (when, list(now))
        if total > sum(peak):
            peak = list(now)
    if changes:
        points.append((last, list(now)))
    return MemoryLine(device, points, peak, events, complete)
