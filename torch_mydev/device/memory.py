"""Device memory: how much is in use, giving cached memory back, limits, and what the allocator looks like inside.

Freed memory stays with the process, cached for reuse; ``empty_cache()`` gives it back. "Allocated" is what tensors
occupy, "reserved" is that plus what is cached. The figures are those of ``torch.accelerator.memory_stats``, and before
the first use of a device they are empty or 0. Sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch_mydev import _C
from torch_mydev.device.devices import DeviceLike, device_index, init
from torch_mydev.device.memory_history import (  # noqa: F401 - torch.cuda.memory has them
    _allocation_traceback,
    _annotate_tensor,
    _dump_snapshot,
    _get_memory_metadata,
    _record_memory_history,
    _set_memory_metadata,
    _snapshot,
    attach_out_of_memory_observer,
)
from torch_mydev.device.stream import Stream

# --- figures ----------------------------------------------------------------------------------------------------------


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """The allocator's statistics under torch.cuda's keys, such as ``"allocated_bytes.all.peak"``.

    The bytes that the private pool ``(0, 7)`` has reserved are under
    ``"reserved_bytes_by_private_pools.0_7.all.current"``. The keys of a pool that is gone stay until peaks or totals
    are reset.
    """
    index = device_index(device)
    stats: dict[str, int] = dict(torch.accelerator.memory_stats(index))
    for (first, second), reserved in _C.reserved_by_pool(index).items():
        prefix = f"reserved_bytes_by_private_pools.{first}_{second}"
        stats.update({f"{prefix}.{key}": value for key, value in reserved.items()})
    return stats


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """The same as nested dictionaries: ``["allocated_bytes"]["all"]["peak"]``."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        level = nested
        for name in path:
            level = level.setdefault(name, {})
        level[last] = value
    return nested


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that tensors occupy now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes that tensors have occupied since the start, or since reset_peak_memory_stats."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the process has from the driver, cached ones included."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most bytes that the process has had from the driver since the start, or since reset_peak_memory_stats."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Makes every ``peak`` start from the current value."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Makes the totals (``allocated``, ``freed`` and the ``num_…`` counters) start from 0."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total memory of the device, as its driver sees them."""
    init()
    free, total = torch.accelerator.get_memory_info(device_index(device))
    return free, total


# --- pinned host memory -----------------------------------------------------------------------------------------------


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Statistics of pinned host memory, as nested dictionaries."""
    stats: dict[str, Any] = _C.host_memory_stats()
    return stats


def host_memory_stats() -> dict[str, int]:
    """Statistics of pinned host memory, such as ``"allocated_bytes.current"``."""
    flat: dict[str, int] = {}
    for key, value in host_memory_stats_as_nested_dict().items():
        if isinstance(value, dict):
            flat.update({f"{key}.{name}": figure for name, figure in value.items()})
        else:
            flat[key] = value
    return flat


def reset_accumulated_host_memory_stats() -> None:
    """Makes the totals of pinned host memory start from 0."""
    _C.reset_accumulated_host_memory_stats()


def reset_peak_host_memory_stats() -> None:
    """Makes the peaks of pinned host memory start from the current value."""
    _C.reset_peak_host_memory_stats()


# --- giving back, limits ----------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Gives all cached memory of all devices back to the driver. Waits for work that still uses some of it."""
    _C.empty_cache()


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Lets this process reserve at most ``fraction`` (above 0, at most 1) of the device's memory.

    An allocation beyond it raises torch.OutOfMemoryError.
    """
    init()
    if not isinstance(fraction, float):
        raise TypeError(f"the fraction must be a float, not {fraction!r}")
    if not 0 < fraction <= 1:
        raise ValueError(f"the fraction must be above 0 and at most 1, not {fraction}")
    _C.set_memory_fraction(device_index(device), fraction)


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """The fraction of the device's memory that this process may reserve."""
    init()
    return float(_C.memory_fraction(device_index(device)))


def get_allocator_backend() -> str:
    """Always ``"native"``: there is one allocator."""
    return "native"


# --- raw memory -------------------------------------------------------------------------------------------------------


def caching_allocator_alloc(
    size: int, device: DeviceLike = None, stream: Stream | torch.Stream | int | None = None
) -> int:
    """Address of ``size`` bytes of device memory, for use by other libraries; 0 for 0 bytes.

    ``stream`` (default: the current one) is the stream that the memory will be used on, as a Stream or its id. Free it
    with caching_allocator_delete.
    """
    init()
    index = device_index(device)
    if stream is None:
        stream = torch.accelerator.current_stream(index)
    stream_id = stream if isinstance(stream, int) else stream.stream_id
    return int(_C.raw_alloc(index, stream_id, size))


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees what caching_allocator_alloc returned. Raises ValueError for any other address."""
    _C.raw_delete(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Sets whether freed memory is kept for later; if not, each block comes from the driver and goes back to it.

    Applies to all devices and threads, and to memory that is allocated from now on; earlier memory is freed as before.
    A freed block goes back once the streams that used it have passed, at the next allocation or question about memory.
    Graphs and pools keep theirs.
    """
    _C.set_memory_caching(bool(value))


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Memory that is allocated inside is not kept when it is freed: ``caching_allocator_enable(False)`` and back."""
    before: bool = _C.memory_cached()
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def device_memory_used(device: DeviceLike = None) -> int:
    """Bytes of the device that are in use, by any process, as its driver sees them."""
    free, total = mem_get_info(device)
    return total - free


# --- looking inside ---------------------------------------------------------------------------------------------------


def memory_snapshot(mempool_id: tuple[int, int] | None = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """Every segment of driver memory on every device, or those of one pool, with the blocks that it is divided into.

    The form is that of ``torch.cuda.memory_snapshot``. A block's ``state`` is ``"active_allocated"``,
    ``"active_awaiting_free"`` (another stream has yet to finish with it) or ``"inactive"``. ``"stream"`` is the id of
    the segment's stream, and ``"segment_pool_id"`` that of its private pool, ``(0, 0)`` outside of them. There are no
    traces to include.
    """
    segments: list[dict[str, Any]] = _C.memory_snapshot()
    return [segment for segment in segments if mempool_id is None or segment["segment_pool_id"] == mempool_id]


_SUMMARY_ROWS = (
    ("allocated memory", "allocated_bytes", True),
    ("requested memory", "requested_bytes", True),
    ("active memory", "active_bytes", True),
    ("reserved memory", "reserved_bytes", True),
    ("unusable while split", "inactive_split_bytes", True),
    ("allocations", "allocation", False),
    ("active allocations", "active", False),
    ("segments", "segment", False),
    ("unusable blocks", "inactive_split", False),
)
_SUMMARY_POOLS = (("", "all"), ("  from large pool", "large_pool"), ("  from small pool", "small_pool"))
_SUMMARY_METRICS = ("current", "peak", "allocated", "freed")


def _format_size(size: int) -> str:
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(value) >= 10240 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}"


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The allocator's statistics as a table for people; without the rows of each pool if ``abbreviated``."""
    index = device_index(device)
    stats = memory_stats(index)
    ooms, retries = stats.get("num_ooms", 0), stats.get("num_alloc_retries", 0)
    width = 74
    lines = [
        "=" * width,
        f"Memory of device {index}: {ooms} out of memory, {retries} retries after releasing cached memory",
        "-" * width,
        f"{'':24}" + "".join(f"{title:>12}" for title in ("current", "peak", "allocated", "freed")),
        "-" * width,
    ]
    for title, key, is_size in _SUMMARY_ROWS:
        for suffix, pool in _SUMMARY_POOLS[: 1 if abbreviated else None]:
            figures = [stats.get(f"{key}.{pool}.{metric}", 0) for metric in _SUMMARY_METRICS]
            texts = [_format_size(figure) if is_size else str(figure) for figure in figures]
            lines.append(f"{suffix or title:24}" + "".join(f"{text:>12}" for text in texts))
    lines += ["-" * width]
    lines += [
        f"{title:24}{stats.get(key, 0):>12}"
        for title, key in (("driver allocations", "num_device_alloc"), ("driver releases", "num_device_free"))
    ]
    return "\n".join([*lines, "=" * width])
