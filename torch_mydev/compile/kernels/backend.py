"""torch.compile's backend for kernels: Inductor's, with the scheduling of this package.

A graph for which no code can be generated, or whose kernels the driver's compiler does not take, becomes programs
instead, and the log says why.
"""

from __future__ import annotations

import collections
import copy
import functools
import logging
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, cast

import torch
from torch._inductor import compile_fx as inductor
from torch._inductor import config, lowering
from torch._inductor.codegen import common
from torch._inductor.graph import GraphLowering
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.composites import use_kernels_of_composites
from torch_mydev.compile.decompositions import DecompositionTable, give_table_a_version
from torch_mydev.compile.device_kernels import DEVICE_KERNELS
from torch_mydev.compile.graph_devices import graph_devices, several_devices
from torch_mydev.compile.kernels import scheduling, settings
from torch_mydev.compile.kernels.library import collected_calls, language_of
from torch_mydev.compile.kernels.recorded_graph import RecordedGraph, is_recordable
from torch_mydev.compile.kernels.types import MEMORY_TYPES
from torch_mydev.compile.program.backend import boxed, compile_operators, donated_inputs
from torch_mydev.compile.program.schedule import storages_of
from torch_mydev.observe.compile_report import GraphReport, add_report

log = logging.getLogger(__name__)

aten = torch.ops.aten

#: The backend's name.
BACKEND = f"{DEVICE_NAME}_kernels"

#: Changes to Inductor's settings. Memory is planned as that of a program (recorded_graph.py): there, the live range of
#: a buffer that is used again would go from its first use to its last. Loop index inversion would fuse a kernel with
#: one that reads its result out of order, and store out of order instead. Inductor does not see that elements which
#: are read several times, or not at all, leave gaps in what is stored.
_SETTINGS = {"allow_buffer_reuse": False, "loop_index_inversion_in_fusion": False}


def obstacle(devices: set[torch.device]) -> str | None:
    """Why no kernels can be generated for these devices; None if they can."""
    if (reason := several_devices(devices)) is not None:
        return reason
    for device in devices:
        languages = _C.compiler_languages(device.index)
        if not languages:
            return f"the driver of {device} has no kernel compiler"
        if _C.kernel_language(device.index) is None:
            known = ", ".join(language.name for language in _C.kernel_languages())
            return f"the driver of {device} compiles {', '.join(languages)}; kernels are generated in {known}"
    return None


def compile_graph(
    original: Callable[..., Any],
    graph: GraphModule,
    example_inputs: Sequence[Any],
    patches: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend: ``original`` is Inductor's ``compile_fx``, ``patches`` are of its settings, and from torch 2.15
    on of the device's."""
    scheduling.register()
    patch: Any = getattr(common, "patch_compile_options", config.patch)
    chosen = {**_SETTINGS, **(patches or {})}
    inner = patch(chosen)(functools.partial(_compile, inductor.compile_fx_inner))
    with patch(chosen):
        return cast("Callable[..., Any]", original(graph, example_inputs, inner, decompositions=DecompositionTable()))


def _compile(
    compile_fx_inner: Callable[..., Any], graph: GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Any:
    """Replaces Inductor's ``compile_fx_inner``; hands graphs without tensors of the device on to it."""
    devices = graph_devices(graph, example_inputs)
    if not devices:
        return compile_fx_inner(graph, example_inputs, **options)
    failures_raise = _failures_raise()
    begin = time.perf_counter()
    kind = "backward" if options.get("is_backward") else "inference" if options.get("is_inference") else "forward"
    report = GraphReport(kind=kind, device=str(min(devices, key=str)), route="kernels")
    use_kernels_of_composites(graph)
    operators = GraphModule(graph, copy.deepcopy(graph.graph))  # Inductor changes its own
    try:
        report.ops = sum(node.op == "call_function" for node in graph.graph.nodes)
        converts = _converts_images(graph, kind)
        _leave_to_the_device(graph, min(devices, key=str), converts)
        give_table_a_version(options)
        with config.patch(layout_optimization=converts), collected_calls() as calls:
            compiled = compile_fx_inner(graph, example_inputs, **options)
    except Exception as error:  # programs take it, whatever keeps it from becoming kernels
        if failures_raise:
            raise
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        log.warning("torch.compile: a graph becomes programs of %s, not kernels: %s", DEVICE_NAME, reason[0])
        log.info("torch.compile: what kept it from becoming kernels", exc_info=True)
        return compile_operators(kind, operators, example_inputs)
    report.calls = calls
    report.ops -= len(calls)
    report.seconds = time.perf_counter() - begin
    add_report(report)
    device = min(devices, key=str)
    if not is_recordable(operators, device):
        return compiled
    return boxed(RecordedGraph(compiled, device, _alone(operators, donated_inputs() if kind == "backward" else ())))


def _failures_raise() -> bool:
    """Whether what keeps a graph from becoming kernels is raised; else the graph becomes programs."""
    chosen = settings.kernel_generation or _C.config_value("MYDEV_KERNEL_GENERATION")
    if chosen not in ("programs", "raise"):
        raise ValueError(f'the option "{DEVICE_NAME}.kernel_generation" is "programs" or "raise", not {chosen!r}')
    return chosen == "raise"


def _converts_images(graph: GraphModule, kind: str) -> bool:
    """Whether Inductor converts the images of a graph's convolutions to channels-last. It decides as for other devices.
    With the device's group norms it does not: they take operands as they lie, so images would be converted back and
    forth."""
    has_group_norm = any(node.target is aten.native_group_norm.default for node in graph.graph.nodes)
    return not has_group_norm and GraphLowering.decide_layout_opt(graph, is_inference=kind == "inference")


def _alone(graph: GraphModule, places: Sequence[int]) -> list[int]:
    """The places, of those given, whose inputs shared no memory with another input when they were traced."""
    inputs = [storages_of(node) for node in graph.graph.nodes if node.op == "placeholder"]
    uses = collections.Counter(storage for storages in inputs for storage in storages)
    return [place for place in places if all(uses[storage] == 1 for storage in inputs[place])]


# --- what is left to the device's own operators -----------------------------------------------------------------------


def _leave_to_the_device(graph: GraphModule, device: torch.device, converts_images: bool) -> None:
    """Marks the calls that Inductor is not to generate code for."""
    # Operators for which the host's own kernels are faster: on another processor, a driver may have no kernel at all.
    whole = {op for op, kernel in DEVICE_KERNELS.items() if kernel.whole and language_of(device.index).name == "c++"}
    for op in whole - lowering.lowerings.keys():
        # Registered here, since Inductor's implicit fallback is an error if the variable CI is set.
        lowering.make_fallback(op, lowering.constrain_to_fx_strides, warn=False, override_decomp=True)  # type: ignore[no-untyped-call]
    types = set(MEMORY_TYPES) if language_of(device.index).f64 else set(MEMORY_TYPES) - {torch.float64}
    for module in graph.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                if (
                    node.op == "call_function"
                    and isinstance(node.target, OpOverload)
                    and (node.target in whole or _is_left(node, types, converts_images))
                ):
                    node.meta["should_fallback"] = True


#: Special functions; the kernels' language has none of them.
_SPECIAL = _C.not_in_kernels | {
    data.name for name, data in common.pointwise_overrides_data.items() if name not in ("fma", "mul_rn")
}
#: The lowering of these wants all operands in one memory order, that of the weights' gradient or of the result. It
#: copies images or weights to that order.
_CONVOLUTION_BACKWARD, _CONVOLUTION = "convolution_backward", "convolution"
#: These raise for an integer divisor of 0; code in a kernel cannot raise.
_DIVISIONS = ("div", "floor_divide", "remainder", "fmod")


def _is_left(node: Node, types: Container[torch.dtype], converts_images: bool) -> bool:
    """``types``: that generated code computes in."""
    name = node.target._schema.name.partition("::")[2]  # type: ignore[union-attr]
    if name in _SPECIAL or name == _CONVOLUTION_BACKWARD or (name == _CONVOLUTION and not converts_images):
        return True
    if name in _DIVISIONS:
        rounding = "floor" if name == "floor_divide" else node.kwargs.get("rounding_mode")
        if _is_floating(node):
            return rounding == "floor"  # Inductor's is not eager mode's for infinities
        divisor = node.args[1]
        return isinstance(divisor, Node) or not divisor
    return any(dtype not in types and not dtype.is_complex for dtype in _dtypes(node))


def _dtypes(node: Node) -> set[torch.dtype]:
    values = [source.meta.get("val") for source in (node, *node.all_input_nodes)]
    return {value.dtype for value in values if isinstance(value, torch.Tensor)}


def _is_floating(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
