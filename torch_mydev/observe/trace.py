"""Dispatch trace: which op runs through which dispatch key, and which kernels it launches.

``TORCH_SHOW_DISPATCH_TRACE=1`` in the environment traces the whole process to stderr, on release builds of PyTorch
too; :func:`dispatch_trace` traces a block of code. Lines look as those of a debug build of PyTorch::

     [call] op=[aten::add.Tensor], key=[AutogradPrivateUse1]
      [redispatch] op=[aten::add.Tensor], key=[PrivateUse1]
       [launch] kernel=[mydev.add]
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol

from torch_mydev import _C

__all__ = ["dispatch_trace", "start_from_environment"]

_VARIABLE = "TORCH_SHOW_DISPATCH_TRACE"


class _Writable(Protocol):
    def write(self, text: str, /) -> object: ...


class _ThreadFollower:
    """Makes threads that Python starts while a trace is open belong to the trace opened last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: list[_C.DispatchTrace] = []
        self._previous: Any = None

    def add(self, trace: _C.DispatchTrace) -> None:
        with self._lock:
            if not self._traces:
                self._previous = threading.getprofile()
                threading.setprofile(self._on_thread_start)
            self._traces.append(trace)

    def remove(self, trace: _C.DispatchTrace) -> None:
        with self._lock:
            self._traces.remove(trace)
            if not self._traces and threading.getprofile() == self._on_thread_start:
                threading.setprofile(self._previous)

    def _on_thread_start(self, frame: FrameType, event: str, arg: object) -> None:
        sys.setprofile(self._previous)
        with self._lock:
            if self._traces:
                self._traces[-1].join()


_follower = _ThreadFollower()


def _line_writer(target: _Writable) -> Callable[[str], None]:
    lock = threading.Lock()

    def write(line: str) -> None:
        with lock:
            target.write(line + "\n")

    return write


@contextlib.contextmanager
def dispatch_trace(
    file: str | os.PathLike[str] | _Writable | list[str] | None = None, *, all_devices: bool = False
) -> Iterator[None]:
    """Traces the ops that the calling thread runs on the device, until the block ends.

    Args:
        file: where the lines go: a path (overwritten), an object with ``write``, a list (one item per line), or None
            for ``sys.stderr``.
        all_devices: tell also of ops that do not touch the device.

    Backward passes of the block belong to it, whatever thread runs them; so do threads started inside the block with
    :mod:`threading`. Blocks nest: the innermost gets the lines.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(file, list):
            write: Callable[[str], None] = file.append
        elif isinstance(file, (str, os.PathLike)):
            write = _line_writer(stack.enter_context(open(file, "w", encoding="utf-8")))
        else:
            write = _line_writer(sys.stderr if file is None else file)
        trace = _C.begin_dispatch_trace(write, all_devices)
        stack.callback(trace.end)
        _follower.add(trace)
        stack.callback(_follower.remove, trace)
        yield


def start_from_environment() -> None:
    """Traces the process from now on if ``TORCH_SHOW_DISPATCH_TRACE`` is 1. Called when the package is imported."""
    value = os.environ.get(_VARIABLE, "0")
    if value == "1":
        _follower.add(_C.begin_dispatch_trace(None, False))
    elif value != "0":
        warnings.warn(f"{_VARIABLE}={value} is ignored: it takes 1 (trace) or 0", stacklevel=2)
