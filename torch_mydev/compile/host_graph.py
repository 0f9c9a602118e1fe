"""Compiles a graph of AOTAutograd's for the host and runs it on the device's memory.

The graph is rewritten in terms of the CPU, which is what Inductor then compiles, with all that it knows about CPUs.
Around the generated code, csrc/python/compile_bindings.cpp passes the device's tensors by alias, and
takes over the results.

Not everything becomes CPU code: what draws from the device's random state, kernels brought by custom calls, and
operators whose kernel on the device is faster are kept as device calls (device_call.py).
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.channels_last import prefer_channels_last
from torch_mydev.compile.composites import use_kernels_of_composites
from torch_mydev.compile.decompositions import give_table_a_version
from torch_mydev.compile.device_call import kept_call, kept_functionalized_call
from torch_mydev.compile.fake_tensors import CPU, retarget
from torch_mydev.compile.graph_devices import graph_devices, several_devices
from torch_mydev.compile.host_operators import REWRITES
from torch_mydev.observe.compile_report import GraphReport, add_report

log = logging.getLogger(__name__)

aten = torch.ops.aten


def compile_for_host(
    compile_fx_inner: Callable[..., Any], graph: GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Any:
    """Replaces Inductor's ``compile_fx_inner`` for graphs with tensors of the device; hands other graphs on to it."""
    devices = graph_devices(graph, example_inputs)
    if not devices:
        return compile_fx_inner(graph, example_inputs, **options)
    begin = time.perf_counter()
    report = GraphReport(
        kind="backward" if options.get("is_backward") else "inference" if options.get("is_inference") else "forward",
        device=str(min(devices, key=str)),
    )
    use_kernels_of_composites(graph)
    unsupported = _unsupported(graph, devices)
    if unsupported is not None:
        log.warning("torch.compile: %s; this graph runs through %s's own operators", unsupported, DEVICE_NAME)
        report.reason = unsupported
        compiled = _interpret(graph)
    else:
        compiled = _compile(compile_fx_inner, graph, example_inputs, next(iter(devices)), options, report)
    report.seconds = time.perf_counter() - begin
    add_report(report)
    return compiled


def _unsupported(graph: GraphModule, devices: set[torch.device]) -> str | None:
    """Why a graph cannot run as CPU code on the device's memory; None if it can."""
    if (reason := several_devices(devices)) is not None:
        return reason
    for module in _graphs(graph):
        for node in module.graph.nodes:
            if node.target in _RESIZING:
                return f"{node.target} gives an input other memory"
            # Inductor declares streams for the devices that it takes for GPUs alone.
            if node.meta.get("custom", {}).get("stream") is not None:
                return f"{node.target} is in a `with stream` block"
    return None


_RESIZING = {
    aten.set_.source_Tensor,
    aten.set_.source_Storage_storage_offset,
    torch.ops.inductor.resize_storage_bytes_.default,
}


def _interpret(graph: GraphModule) -> Callable[[list[Any]], Any]:
    def run(arguments: list[Any]) -> Any:
        return torch.fx.Interpreter(graph).boxed_run(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _check_cache_directory() -> None:
    """Raises RuntimeError if Inductor cannot write its code anywhere."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    try:
        os.makedirs(cache_dir(), exist_ok=True)
        writable = os.access(cache_dir(), os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        directory = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "the default directory for temporary files")
        raise RuntimeError(
            f"Inductor cannot write its generated code to {directory}: name a directory that can be written in "
            "TORCHINDUCTOR_CACHE_DIR"
        )


def _compile(
    compile_fx_inner: Callable[..., Any],
    graph: GraphModule,
    example_inputs: Sequence[Any],
    device: torch.device,
    options: dict[str, Any],
    report: GraphReport,
) -> Callable[[list[Any]], Any]:
    outputs = _output_rules(graph)
    static = _static_inputs(graph, options)
    report.copies = sum(_is_cpu_result(output) for output in _outputs(graph))
    converter = _HostConverter()
    report.calls = converter.convert(graph)
    report.ops = sum(node.op == "call_function" for module in _graphs(graph) for node in module.graph.nodes)
    report.ops -= len(report.calls)
    host_inputs = [converter.to_host(value) for value in example_inputs]
    prefer_channels_last(graph, host_inputs, _num_visible(options))
    give_table_a_version(options)
    _check_cache_directory()
    compiled = compile_fx_inner(graph, host_inputs, **options)
    run = functools.partial(_C.host_graph(compiled, device.index, outputs, static, len(host_inputs)))
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


# --- what the calls need to know -------------------------------------------------------------------------------------


def _graphs(graph: GraphModule) -> list[GraphModule]:
    return [module for module in graph.modules() if isinstance(module, GraphModule)]


def _outputs(graph: GraphModule) -> list[Any]:
    return list(cast("Sequence[Any]", graph.graph.output_node().args[0]))


def _storage(value: object) -> int | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return int(value.untyped_storage()._cdata)


def _output_rules(graph: GraphModule) -> list[tuple[bool, int]]:
    """For each output: whether it belongs on the device, and which input it shares memory with (-1: none)."""
    inputs: dict[int, int] = {}
    for index, node in enumerate(node for node in graph.graph.nodes if node.op == "placeholder"):
        storage = _storage(node.meta.get("val"))
        if storage is not None:
            inputs.setdefault(storage, index)
    rules = []
    for output in _outputs(graph):
        value = output.meta.get("val") if isinstance(output, Node) else None
        on_device = isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME
        storage = _storage(value)
        rules.append((on_device, inputs.get(storage, -1) if storage is not None else -1))
    return rules


def _is_cpu_result(output: object) -> bool:
    value = output.meta.get("val") if isinstance(output, Node) and output.op != "placeholder" else None
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _static_inputs(graph: GraphModule, options: dict[str, Any]) -> list[int]:
    """The inputs whose memory does not change from call to call, as a rule: parameters and buffers."""
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    if options.get("is_backward"):
        return [index for index, name in enumerate(names) if name.startswith("primals_")]
    return [index for index in options.get("static_input_idxs", ()) if index < len(names)]


def _num_visible(options: dict[str, Any]) -> int | None:
    """How many of the first outputs others see than the backward graph; None: all."""
    context = torch._guards.TracingContext.try_get()
    if options.get("is_backward") or options.get("is_inference") or context is None or context.fw_metadata is None:
        return None
    return int(context.fw_metadata.num_forward)


# --- in terms of the CPU ---------------------------------------------------------------------------------------------


class _HostConverter:
    """Rewrites a graph of the device as one of the CPU, in place, with fake tensors that share what they shared."""

    def __init__(self) -> None:
        self._fakes: dict[int, tuple[FakeTensor, FakeTensor]] = {}

    def convert(self, graph: GraphModule) -> list[str]:
        """Returns the names of the operators that are kept as device calls."""
        calls: list[str] = []
        for module in _graphs(graph):
            for node in list(module.graph.nodes):
                if node.op == "get_attr":
                    self._convert_constant(module, node)
                elif node.op == "call_function":
                    calls += self._convert_call(node)
            for node in module.graph.nodes:
                if "val" in node.meta:
                    node.meta["val"] = pytree.tree_map(self.to_host, node.meta["val"])
            module.graph.lint()
            module.recompile()
        return calls

    def to_host(self, value: Any) -> Any:
        if not isinstance(value, FakeTensor) or value.device.type != DEVICE_NAME:
            return value
        if id(value) not in self._fakes:
            self._fakes[id(value)] = (value, retarget(value, CPU))
        return self._fakes[id(value)][1]

    def _convert_constant(self, module: GraphModule, node: Node) -> None:
        constant = getattr(module, str(node.target), None)
        if isinstance(constant, torch.Tensor) and constant.device.type == DEVICE_NAME:
            with _disable_current_modes():
                host = constant.detach().cpu()
            if isinstance(constant, torch.nn.Parameter):
                host = torch.nn.Parameter(host, requires_grad=False)
            setattr(module, str(node.target), host)

    def _convert_call(self, node: Node) -> list[str]:
        if node.target in REWRITES:
            REWRITES[node.target](node)
            return []
        kept = kept_call(node)
        if kept is not None:
            node.target = kept
            return [str(kept)]
        kept = kept_functionalized_call(node)
        if kept is not None:
            node.args = (kept, *node.args[1:])
            return [str(kept)]
        if _is_transfer(node):
            node.target, node.args, node.kwargs = aten.clone.default, node.args[:1], {}
            return []
        node.args = pytree.tree_map(_host_device, node.args)
        node.kwargs = pytree.tree_map(_host_device, node.kwargs)
        return []


def _host_device(value: Any) -> Any:
    return CPU if isinstance(value, torch.device) and value.type == DEVICE_NAME else value


def _is_transfer(node: Node) -> bool:
    """Whether the node moves a tensor between the device and the CPU: then a copy, which Inductor must not drop."""
    if node.target is not torch.ops.prims.device_put.default:
        return False
    source, result = node.args[0], node.meta.get("val")
    if not isinstance(source, Node) or not isinstance(result, torch.Tensor):
        return False
    return bool(source.meta["val"].device.type != result.device.type)
