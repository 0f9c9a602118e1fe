"""torch.compile's backend for programs: graphs as programs of the device, without a compiler of code.

AOTAutograd makes graphs of operators, forward and backward; each is a function that runs programs (graph_function.py).
The first call with new sizes takes some milliseconds more, and no other tool is needed. It works on every driver.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch._functorch import config as functorch_config
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.composites import use_kernels_of_composites
from torch_mydev.compile.graph_devices import graph_devices
from torch_mydev.compile.program.graph_function import GraphFunction
from torch_mydev.observe.compile_report import GraphReport, add_report

#: Its name.
BACKEND = f"{DEVICE_NAME}_program"


def compile_graph(graph: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend. It has no options; ``mode`` is taken, and makes no difference."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    unknown = sorted(set(options) - {"mode"})
    if unknown:
        raise ValueError(f'backend "{BACKEND}" has no options, but is given {", ".join(unknown)}')
    with functorch_config.patch(unlift_effect_tokens=True):
        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=functools.partial(compile_operators, "forward"),
            bw_compiler=functools.partial(compile_operators, "backward"),
            inference_compiler=functools.partial(compile_operators, "inference"),
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )(graph, example_inputs)
    return compiled


def compile_operators(kind: str, graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """A graph of AOTAutograd's: "forward", "backward" or "inference"."""
    begin = time.perf_counter()
    devices = graph_devices(graph, example_inputs)
    if not devices:
        return boxed(_interpreter(graph))
    use_kernels_of_composites(graph)
    device = min(devices, key=str)
    report = GraphReport(kind=kind, device=str(device), route="program")
    function = GraphFunction(graph, device, report, donated_inputs() if kind == "backward" else ())
    report.seconds = time.perf_counter() - begin
    add_report(report)
    return boxed(function)


def donated_inputs() -> Sequence[int]:
    """The inputs of the backward graph that is being compiled which the forward graph made for it alone."""
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return (metadata.bw_donated_idxs if metadata is not None else None) or ()


def _interpreter(graph: GraphModule) -> Callable[[list[Any]], Any]:
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()
    return cast("Callable[[list[Any]], Any]", graph.forward)


def boxed(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Marks a function that empties its list of arguments, as AOTAutograd wants it."""

    def run(arguments: list[Any]) -> Any:
        return function(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
