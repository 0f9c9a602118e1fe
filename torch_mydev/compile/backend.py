"""torch.compile's backend "inductor", the default, on the device, and the one of the device's name, which is the same.

Graphs with tensors of the device are compiled by Inductor for the host, and run on the device's memory (host_graph.py).
If the host cannot access the driver's memory, or there is no C++ compiler, that is impossible. Then they become kernels
that the driver's own compiler makes (kernels/backend.py) if that is faster, else programs of the device
(program/backend.py), and a line of the log says so once. In the mode "reduce-overhead" they become programs. Graphs
without tensors of the device are compiled as they are without this package.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch.fx import GraphModule

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.graph_devices import graph_devices, several_devices
from torch_mydev.device.devices import get_device_properties

log = logging.getLogger(__name__)


def compile_graph(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend of the device's name: what "inductor" does, with the same ``mode`` and ``options``."""
    from torch._inductor import compile_fx

    patches = _patches(mode, options) or None
    return cast("Callable[..., Any]", compile_fx.compile_fx(graph, example_inputs, config_patches=patches))


def compile_graph_to_kernels(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend of kernels that the device's driver compiles, with Inductor's ``mode`` and ``options``.

    Graphs without tensors of the device are Inductor's.
    """
    from torch._inductor import compile_fx

    from torch_mydev.compile.kernels import backend as kernels

    devices = graph_devices(graph, example_inputs)
    if not devices:
        return compile_graph(graph, example_inputs, mode=mode, options=options)
    obstacle = kernels.obstacle(devices)
    if obstacle is not None:
        raise RuntimeError(f'backend "{kernels.BACKEND}": {obstacle}; use "{DEVICE_NAME}", which chooses what there is')
    original = compile_fx.compile_fx.__wrapped__  # type: ignore[attr-defined]
    return kernels.compile_graph(original, graph, example_inputs, _patches(mode, options))


def _patches(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    import torch._inductor

    patches = dict(torch._inductor.list_mode_options(mode)) if mode and mode != "default" else {}
    patches.update({name.replace("-", "_"): value for name, value in (options or {}).items()})
    return patches


def make_compile_fx(original: Callable[..., Any], inductor_inner: Callable[..., Any]) -> Callable[..., Any]:
    """``torch._inductor.compile_fx.compile_fx`` that knows the device; ``inductor_inner`` is its compile_fx_inner."""

    @functools.wraps(original)
    def compile_fx(
        model_: GraphModule,
        example_inputs_: Sequence[Any],
        inner_compile: Callable[..., Any] = inductor_inner,
        config_patches: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        devices = graph_devices(model_, example_inputs_)
        if devices:
            _refuse_export_to_native_code()
            obstacle = _obstacle(devices)
            replayed = _wants_little_overhead(config_patches or {})
            if obstacle is not None and not replayed and _kernels_are_faster(devices):
                from torch_mydev.compile.kernels.backend import compile_graph as compile_to_kernels

                _log_once(f"torch.compile: {obstacle}. Graphs become kernels that the driver's compiler makes instead.")
                return compile_to_kernels(original, model_, example_inputs_, config_patches)
            if obstacle is not None:
                _log_once(f"torch.compile: {obstacle}. Graphs become programs of {DEVICE_NAME} instead.")
            if obstacle is not None or replayed:
                from torch_mydev.compile.program.backend import compile_graph as compile_to_programs

                return compile_to_programs(model_, example_inputs_)
            # If there are config_patches, this function is called again once they apply.
            if not config_patches and kwargs.get("decompositions") is None:
                from torch_mydev.compile.decompositions import DecompositionTable

                kwargs["decompositions"] = DecompositionTable()
        if inner_compile is inductor_inner:
            from torch_mydev.compile.host_graph import compile_for_host

            inner_compile = functools.partial(compile_for_host, inductor_inner)
        return original(model_, example_inputs_, inner_compile, config_patches, **kwargs)

    return compile_fx


# --- if graphs cannot be compiled for the host -----------------------------------------------------------------------


def _obstacle(devices: set[torch.device]) -> str | None:
    """Why graphs on these devices cannot run on the host; None if they can."""
    for device in devices:
        properties = get_device_properties(device)
        if not properties.host_accessible or properties.host_access_slow:
            lacks = "fast" if properties.host_accessible else "accessible"
            return f"the memory of {device} is not {lacks} from the host"
    if not _has_cpp_compiler():
        return "Inductor found no C++ compiler; install one (on Debian: apt install g++), or name one in CXX"
    return several_devices(devices)


def _kernels_are_faster(devices: set[torch.device]) -> bool:
    """Whether generated kernels are preferred to programs: if the driver compiles for another processor than the
    host's. On the host's own processor the language is C++. There, programs need no compiler, and are ready in
    milliseconds."""
    languages = [_C.compiler_languages(device.index) for device in devices]
    if not all(known and known[0] != "c++" for known in languages):
        return False
    from torch_mydev.compile.kernels.backend import obstacle

    return obstacle(devices) is None


def _wants_little_overhead(patches: Mapping[str, Any]) -> bool:
    """Whether the mode is "reduce-overhead": launches are to be replayed as a graph, which is what a program is."""
    from torch._inductor import config

    replays = patches.get("triton.cudagraphs", config.triton.cudagraphs)
    return bool(replays) and not patches.get("max_autotune", config.max_autotune)


@functools.cache
def _has_cpp_compiler() -> bool:
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        return False
    return True


@functools.cache
def _log_once(message: str) -> None:
    log.warning(message)


def _refuse_export_to_native_code() -> None:
    from torch._inductor.virtualized import V

    if V.aot_compilation:
        raise NotImplementedError(
            f"AOTInductor cannot compile for {DEVICE_NAME}; export the model on the CPU, or use torch.compile"
        )
