"""Reports how torch.compile compiled the graphs on the device."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from mydev.html_page import Markup, table


@dataclass
class GraphReport:
    """One compiled graph."""

    kind: str  #: "forward", "backward" or "inference"
    device: str
    #: "host": Inductor's code for the host; "kernels": what the driver compiles; "program": programs of the device
    route: str = "host"
    ops: int = 0  #: operators that became generated code, calls of the CPU's libraries from it, or steps of programs
    calls: list[str] = field(default_factory=list)  #: operators that were kept as calls of the device's
    copies: int = 0  #: tensors copied per call: results that belong on the CPU
    seconds: float = 0.0  #: spent compiling
    reason: str | None = None  #: why it was not compiled and runs through the device's own operators; None if it was


_lock = threading.Lock()
_reports: list[GraphReport] = []


def add_report(report: GraphReport) -> None:
    """Called once per graph that was compiled."""
    with _lock:
        _reports.append(report)


class CompileReport:
    """The graphs compiled so far in this process, oldest first; printed, a table."""

    def __init__(self, graphs: list[GraphReport]) -> None:
        self.graphs = graphs

    def __str__(self) -> str:
        header = ("graph", "kind", "device", "route", "ops", "calls", "copies", "seconds")
        lines = ["{:>5}  {:<9}  {:<8}  {:<8}  {:>5}  {:>5}  {:>6}  {:>7}".format(*header)]
        for index, graph in enumerate(self.graphs):
            lines.append(
                f"{index:>5}  {graph.kind:<9}  {graph.device:<8}  {graph.route:<8}  {graph.ops:>5}  "
                f"{len(graph.calls):>5}  {graph.copies:>6}  {graph.seconds:>7.2f}"
                + (f"  {graph.reason}" if graph.reason else "")
            )
        return "\n".join(lines)

    __repr__ = __str__  # what an interactive session shows

    def _repr_html_(self) -> str:
        return graph_table(self.graphs)


def graph_table(graphs: Sequence[GraphReport]) -> Markup:
    """The graphs as a table of HTML."""
    return table(
        (
            "graph",
            "kind",
            "device",
            "route",
            "operators",
            "calls of the device's",
            "copies",
            "seconds",
            "not compiled, since",
        ),
        [
            (index, row.kind, row.device, row.route, row.ops, len(row.calls), row.copies, row.seconds, row.reason or "")
            for index, row in enumerate(graphs)
        ],
    )


def compile_report() -> CompileReport:
    """How ``torch.compile`` compiled each graph with tensors of the device, since the last reset or the start."""
    with _lock:
        return CompileReport(list(_reports))


def reset_compile_report() -> None:
    """Forgets the graphs reported so far."""
    with _lock:
        _reports.clear()
