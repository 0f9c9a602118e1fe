"""The device's module under ``torch``: what ``torch.cuda`` offers, for this device.

Only names; each is explained where it is defined. docs/torch-cuda.md says what of ``torch.cuda`` is not offered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mydev.wording import did_you_mean
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device import amp, memory, random, tensor_types
from torch_mydev.device import stream as streams
from torch_mydev.device.amp import get_amp_supported_dtype, is_bf16_supported
from torch_mydev.device.devices import (
    DeviceProperties,
    _exchange_device,
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    _maybe_exchange_device,
    can_device_access_peer,
    clock_rate,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_sync_debug_mode,
    init,
    is_available,
    is_initialized,
    memory_usage,
    power_draw,
    set_device,
    set_sync_debug_mode,
    synchronize,
    temperature,
    utilization,
)
from torch_mydev.device.graphs import MyDevGraph, graph, graph_pool_handle, make_graphed_callables
from torch_mydev.device.memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_disabled,
    caching_allocator_enable,
    device_memory_used,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_mydev.device.memory_pool import MemPool, use_mem_pool
from torch_mydev.device.random import (
    _get_generator,
    _get_rng_state_offset,
    _set_rng_state_offset,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_mydev.device.statistics import LaunchStatistics, launch_statistics
from torch_mydev.device.stream import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    _set_stream_by_id,
    _sleep,
    current_stream,
    default_stream,
    get_stream_from_external,
    is_current_stream_capturing,
    set_stream,
    stream,
)

OutOfMemoryError = torch.OutOfMemoryError
BFloat16Tensor = tensor_types.TYPES["BFloat16Tensor"]
BoolTensor = tensor_types.TYPES["BoolTensor"]
ByteTensor = tensor_types.TYPES["ByteTensor"]
CharTensor = tensor_types.TYPES["CharTensor"]
DoubleTensor = tensor_types.TYPES["DoubleTensor"]
FloatTensor = tensor_types.TYPES["FloatTensor"]
HalfTensor = tensor_types.TYPES["HalfTensor"]
IntTensor = tensor_types.TYPES["IntTensor"]
LongTensor = tensor_types.TYPES["LongTensor"]
ShortTensor = tensor_types.TYPES["ShortTensor"]
default_generators: tuple[torch.Generator, ...]  # as in torch.cuda; made when asked for, since it needs the driver

# The names of `from torch.mydev import *`, without the modules and types that this one is made of. Type checkers read
# them.
__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DeviceProperties",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LaunchStatistics",
    "LongTensor",
    "MemPool",
    "MyDevGraph",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "can_device_access_peer",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "launch_statistics",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "power_draw",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]


def __dir__() -> list[str]:
    return [*__all__, "default_generators"]


if not TYPE_CHECKING:  # which would take any name for one that there is

    def __getattr__(name: str) -> Any:
        if name == "default_generators":
            return random.default_generators()
        if name == "_initialized":  # torch.utils.checkpoint asks; without it, the random state is not restored
            return is_initialized()
        message = f"'torch.{DEVICE_NAME}' has no attribute '{name}'"
        if not name.startswith("_"):  # which libraries ask for
            message += ", " + did_you_mean(
                f"'{name}'", map(repr, __all__), otherwise=f"dir(torch.{DEVICE_NAME}) lists what there is"
            )
        raise AttributeError(message)
