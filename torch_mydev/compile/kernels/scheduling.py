"""Inductor calls these for the device's graphs: which nodes become one kernel, and the Python that launches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen.common import (
    BackendFeature,
    DeviceOpOverrides,
    get_scheduling_for_device,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.wrapper import (
    ExternKernelAllocLine,
    ExternKernelOutLine,
    IndexPutFallbackLine,
    PythonWrapperCodegen,
    ScatterFallbackLine,
)
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.kernels import settings
from torch_mydev.compile.kernels.kernel import NAME, GeneratedKernel

_LIBRARY = "mydev_library"  #: its name in generated code


class KernelScheduling(SIMDScheduling):
    """Inductor's scheduling of kernels that go through ranges, with ours."""

    kernel_type = GeneratedKernel

    def get_backend_features(self, device: torch.device) -> OrderedSet[BackendFeature]:
        return OrderedSet([*super().get_backend_features(device), BackendFeature.INPLACE_BUFFERS])

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: GeneratedKernel) -> str:
        wrapper = V.graph.wrapper_code
        known: dict[str, str] = wrapper.src_to_kernel
        if src_code in known:
            return known[src_code]
        fused = get_fused_kernel_name(node_schedule, config.triton.descriptive_names)
        name = f"{fused or 'kernel'}_{wrapper.next_kernel_suffix()}"
        known[src_code] = name
        origins, details = get_kernel_metadata(node_schedule, wrapper)
        signature = kernel.signature
        counts = (len(signature.results), len(signature.updated), len(signature.operands))
        kinds = "".join(kind for _, _, kind in signature.numbers)
        source = src_code.replace(NAME, name)
        wrapper.header.splice(f"{origins}\n{details}")
        wrapper.header.writeline(f"{name} = {_LIBRARY}.kernel({name!r}, {counts}, {kinds!r}, r'''")
        for line in source.splitlines():
            wrapper.header.writeline(line)
        wrapper.header.writeline("''')")
        return name


class KernelWrapper(PythonWrapperCodegen):
    """The Python around kernels: makes the library of a graph, and compiles it once all kernels are known."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: str | None, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            create: Callable[..., PythonWrapperCodegen] = PythonWrapperCodegen.create
            return create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures)
        return KernelWrapper()  # type: ignore[no-untyped-call]

    def write_header(self) -> None:
        super().write_header()
        index = next((device.index for device in _devices() if device.index is not None), 0)
        self.header.writeline("from torch_mydev.compile.kernels.library import KernelLibrary")
        self.header.writeline(f"{_LIBRARY} = KernelLibrary({index})")

    def write_async_compile_wait(self) -> None:
        super().write_async_compile_wait()
        self.prefix.writeline(f"{_LIBRARY}.compile()")

    def writeline(self, line: Any) -> None:
        if isinstance(line, _CALLS):
            self.header.writeline(f"{_LIBRARY}.calls.append({_operator_name(line.node)!r})")
        super().writeline(line)  # type: ignore[no-untyped-call]


#: Lines that call an operator.
_CALLS = (ExternKernelAllocLine, ExternKernelOutLine, IndexPutFallbackLine, ScatterFallbackLine)


def _operator_name(node: Any) -> str:
    return str(getattr(node, "op_overload", None) or node.get_kernel_name())


def _devices() -> list[torch.device]:
    graph: Any = V.graph.module.graph
    values = [node.meta.get("val") for node in graph.nodes]
    return [value.device for value in values if isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME]


class _DeviceOperations(DeviceOpOverrides):
    """Generated Python needs no stream: launches are given to the current one."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"{name} = None"

    def set_device(self, device_idx: int) -> str:
        return f"torch.{DEVICE_NAME}.set_device({device_idx})"

    def synchronize(self) -> str:
        return f"torch.{DEVICE_NAME}.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.{DEVICE_NAME}.device({device_idx})"

    def current_device_idx_expr(self) -> str:
        return f"torch.{DEVICE_NAME}.current_device()"

    def current_stream(self) -> str:
        return f"torch.{DEVICE_NAME}.current_stream()"

    def aten_device_type(self) -> str:
        return "at::kPrivateUse1"


def register() -> None:
    """Tells Inductor of the device, once. Other routes never ask for it: they give Inductor graphs of the CPU."""
    if get_scheduling_for_device(DEVICE_NAME) is not None:
        return
    create: Callable[..., Any] = KernelScheduling
    config_module: Any = settings
    register_backend_for_device(DEVICE_NAME, create, KernelWrapper, device_custom_config=config_module)
    register_device_op_overrides(DEVICE_NAME, _DeviceOperations())
