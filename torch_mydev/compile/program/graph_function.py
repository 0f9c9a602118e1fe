"""A graph of AOTAutograd's as a function that runs programs of the device.

schedule.py divides the calls of the graph into partitions. The calls of a recorded partition become a program when it
first runs with arguments of some sizes and strides (recording.py). An operator that cannot be recorded runs outside of
programs, as in eager mode. An operator without a kernel is a counted fallback there. Nothing that eager mode can do is
an error.
"""

from __future__ import annotations

import collections
import functools
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node

from torch_mydev import _C
from torch_mydev.compile.program import schedule
from torch_mydev.compile.program.recording import Unrecordable, Values, record_calls, split, with_decompositions
from torch_mydev.observe.compile_report import GraphReport

log = logging.getLogger(__name__)


class GraphFunction:
    """Calls the graph with a list of arguments, which it empties; gives the list of results. Thread-safe."""

    def __init__(
        self, graph: GraphModule, device: torch.device, report: GraphReport, donated: Iterable[int] = ()
    ) -> None:
        """``donated``: places of inputs that nobody needs after a call."""
        self._device = device
        self._report = report
        self._lock = threading.RLock()
        self._inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._donated = {self._inputs[place] for place in donated}
        self._attributes = {
            node: _attribute(graph, str(node.target)) for node in graph.graph.nodes if node.op == "get_attr"
        }
        self._results = list(cast("Sequence[Any]", graph.graph.output_node().args[0]))
        calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        recordable = {node for node in calls if schedule.is_recordable(node, device)}
        self._partitions: list[_Partition] = self._arrange(list(schedule.schedule(calls, recordable)))
        self._update_report()

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values: Values = dict(self._attributes)
        values.update(zip(self._inputs, arguments, strict=True))
        arguments.clear()
        if torch.is_grad_enabled():
            with torch.no_grad():
                self._run(values)
        else:
            self._run(values)
        return [values[result] if isinstance(result, Node) else result for result in self._results]

    def _run(self, values: Values) -> None:
        partitions = self._partitions
        index = 0
        while index < len(partitions):
            partition = partitions[index]
            try:
                partition.run(values)
            except Unrecordable as problem:
                log.info("torch.compile: runs outside of programs: %s", problem)
                partitions = self._replace(partitions, index, split(partitions[index].nodes, problem))
                continue
            for node in partition.dead:
                values.pop(node, None)
            index += 1

    def programs(self) -> list[str]:
        """The text of each program that there is by now."""
        return [text for partition in self._partitions for text in partition.programs()]

    def _arrange(self, divided: Sequence[tuple[bool, list[Node]]]) -> list[_Partition]:
        """Partitions, with what each has to give to later ones."""
        needed = {result for result in self._results if isinstance(result, Node)}
        partitions: list[_Partition] = []
        for recorded, nodes in reversed(divided):
            partition = _RecordedPartition if recorded and any(map(_is_work, nodes)) else _EagerPartition
            used = {source for node in nodes for source in node.all_input_nodes} - set(nodes)
            results = [node for node in nodes if node in needed]
            dead = used.difference(needed) if partition.recorded else used.union(nodes) - needed
            kept = {storage for node in needed for storage in schedule.storages_of(node)} if self._donated else set()
            donated = {node for node in dead & self._donated if not schedule.storages_of(node) & kept}
            partitions.append(partition(nodes, results, dead, donated, self._device, self._report))
            needed |= used
        partitions.reverse()
        return partitions

    def _replace(
        self, partitions: list[_Partition], index: int, divided: list[tuple[bool, list[Node]]]
    ) -> list[_Partition]:
        before, after = partitions[:index], partitions[index + 1 :]
        others = [[(partition.recorded, partition.nodes) for partition in some] for some in (before, after)]
        with self._lock:
            self._partitions = self._arrange([*others[0], *divided, *others[1]])
            # The partitions that have not changed keep their programs.
            self._partitions[: len(before)] = before
            if after:
                self._partitions[-len(after) :] = after
            self._update_report()
            return self._partitions

    def _update_report(self) -> None:
        outside = [partition.nodes for partition in self._partitions if not partition.recorded]
        self._report.ops = sum(len(partition.nodes) for partition in self._partitions if partition.recorded)
        self._report.calls = [str(node.target) for nodes in outside for node in nodes if _is_work(node)]


def _attribute(graph: GraphModule, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), graph)


def _is_work(node: Node) -> bool:
    """Whether something is computed: more than views, and arithmetic of sizes."""
    return isinstance(node.target, HigherOrderOperator) or (
        isinstance(node.target, OpOverload) and not node.target.is_view and bool(schedule.tensors_of(node))
    )


class _Partition:
    """Calls of a graph that run together."""

    recorded = False

    def __init__(
        self,
        nodes: list[Node],
        results: list[Node],
        dead: set[Node],
        donated: set[Node],
        device: torch.device,
        report: GraphReport,
    ) -> None:
        self.nodes = nodes
        self.results = results  #: what others need of it
        self.dead = dead  #: values that nobody needs after it; they may be gone by then
        self._donated = donated  #: those of them whose memory is free then
        self._device = device
        self._report = report

    def run(self, values: Values) -> None:
        """Reads the values of other partitions' nodes, and adds its own."""
        raise NotImplementedError

    def programs(self) -> list[str]:
        return []


class _EagerPartition(_Partition):
    """Calls that run outside of programs."""

    def run(self, values: Values) -> None:
        for node in self.nodes:
            values[node] = schedule.evaluate(node, values)


class _RecordedPartition(_Partition):
    """Calls that become a program, one for each signature of their arguments."""

    recorded = True

    def __init__(self, nodes: list[Node], *others: Any) -> None:
        super().__init__(nodes, *others)
        inside = set(nodes)
        given = {source: None for node in nodes for source in node.all_input_nodes if source not in inside}
        self._arguments = list(given)
        self._numbers = [
            index
            for index, node in enumerate(self._arguments)
            if any(map(schedule.is_host_number, schedule.tensors_of(node)))
        ]
        self._spent = [
            index for index, node in enumerate(self._arguments) if node in self.dead and index not in self._numbers
        ]
        self._decomposed: set[Node] = set()
        storages = collections.Counter(storage for node in self._arguments for storage in schedule.storages_of(node))
        donated = [
            place
            for place, node in enumerate(self._arguments)
            if node in self._donated and all(storages[storage] == 1 for storage in schedule.storages_of(node))
        ]
        self._functions = _C.RecordedFunctions(self._device.index, donated)

    def programs(self) -> list[str]:
        return [function.text() for function in self._functions.functions()]

    def run(self, values: Values) -> None:
        arguments = [values[node] for node in self._arguments]
        for index in self._numbers:
            arguments[index] = arguments[index].to(self._device, non_blocking=True)
        results = self._call(arguments, values)
        if results is None and self._functions.takes(arguments):
            self._record_first(arguments)
            results = self._call(arguments, values)
        if results is None:
            results = self._run_eagerly(arguments)
        values.update(zip(self.results, results, strict=True))

    def _call(self, arguments: list[Any], values: Values) -> list[Any] | None:
        """None without a recording of such arguments. With one, both lose dead values, so that these are freed."""
        for index in self._spent:
            del values[self._arguments[index]]
        results: list[Any] | None = self._functions.call(arguments)
        if results is None:
            values.update((self._arguments[index], arguments[index]) for index in self._spent)
        return results

    def _record_first(self, arguments: list[Any]) -> None:
        """A recording of such arguments, if there can be one."""
        begin = time.perf_counter()
        with_decompositions(lambda: self._record(arguments), self._decomposed)
        self._report.seconds += time.perf_counter() - begin

    def _run_eagerly(self, arguments: list[Any]) -> list[Any]:
        values = dict(zip(self._arguments, arguments, strict=True))
        for node in self.nodes:
            values[node] = schedule.evaluate(node, values)
        return [values[node] for node in self.results]

    def _record(self, arguments: list[Any]) -> None:
        recorder = _C.FunctionRecorder(self._device.index)
        try:
            values = dict(zip(self._arguments, arguments, strict=True))
            for place, (node, value) in enumerate(values.items()):
                if isinstance(value, torch.Tensor):
                    values[node] = self._functions.add_input(recorder, place, value)
            record_calls(self.nodes, values, self._decomposed)
            results = [values[node] for node in self.results]
            tensors = [value for value in results if isinstance(value, torch.Tensor)]
            try:
                function = recorder.finish(tensors)
            except RuntimeError as error:  # what it reads was never written, as of torch.empty
                raise Unrecordable(None, str(error)) from error
        finally:
            recorder.cancel()
        template = [... if isinstance(value, torch.Tensor) else value for value in results]
        self._functions.add(arguments, function, template)
