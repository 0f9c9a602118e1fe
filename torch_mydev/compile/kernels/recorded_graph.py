"""A compiled graph as a program. The commands that its Python submits the first time with arguments of some sizes and
strides are recorded. From then on one call submits them, with memory that is planned (docs/programs.md).

A graph that cannot be recorded, since it reads values or has somebody's own operator, runs as Inductor's Python each
time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from torch_mydev import _C
from torch_mydev.compile.program import schedule

log = logging.getLogger(__name__)


def is_recordable(graph: GraphModule, device: torch.device) -> bool:
    """Whether a graph of AOTAutograd's submits the same each time, as far as one sees."""
    for module in graph.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                if node.op == "call_function" and not schedule.is_recordable(node, device):
                    return False
                if node.op == "placeholder" and any(t.device != device for t in schedule.tensors_of(node)):
                    return False
    return True


class RecordedGraph:
    """Calls the graph with a list of arguments, which it empties. Thread-safe."""

    def __init__(
        self, run: Callable[[list[Any]], Sequence[Any]], device: torch.device, donated: Sequence[int] = ()
    ) -> None:
        """``donated``: places of inputs that nobody needs after a call, and whose memory no other input shares."""
        self._run = run
        self._device = device
        self._functions = _C.RecordedFunctions(device.index, donated)
        self._lock = threading.RLock()
        self._records = True

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        if not self._records:
            return self._run(arguments)
        results: Sequence[Any] | None = self._functions.call(arguments)
        if results is None:
            if not self._functions.takes(arguments):
                return self._run(arguments)
            with self._lock:
                recorded = self._record(arguments)
            if not recorded:
                return self._run(arguments)
            results = self._functions.call(arguments)
            assert results is not None
        arguments.clear()
        return results

    def _record(self, arguments: list[Any]) -> bool:
        recorder = _C.FunctionRecorder(self._device.index)
        try:
            with torch.no_grad(), _disable_current_modes(), torch._C.DisableTorchFunction():
                inputs = [
                    self._functions.add_input(recorder, place, value) if isinstance(value, torch.Tensor) else value
                    for place, value in enumerate(arguments)
                ]
                results = self._run(list(inputs))
                function = recorder.finish([value for value in results if isinstance(value, torch.Tensor)])
        except Exception as problem:  # then it runs as it is, and raises what is to be raised
            log.info("torch.compile: launched kernel by kernel: %s", problem)
            self._records = False
            return False
        finally:
            recorder.cancel()
        template = [... if isinstance(value, torch.Tensor) else value for value in results]
        self._functions.add(arguments, function, template)
        return True
