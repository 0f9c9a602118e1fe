"""Memory pools of the user, with the names and meaning of ``torch.cuda``'s: memory that is kept apart.

Memory that a thread allocates while it has entered a pool comes from there, and returns there when it is freed. Graphs
use the same pools: ``torch.mydev.graph(graph, pool=pool)`` captures with one.

    pool = MemPool()
    with use_mem_pool(pool):
        weights = torch.empty(1 << 20, device=device)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mydev.html_page import paragraph, table
from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import DeviceLike, device_index, init
from torch_mydev.device.memory import memory_snapshot


class MemPool(_C.MemPool):  # type: ignore[misc]
    """A pool of device memory, on each device that it is used on: ``MemPool(use_on_oom=False)``.

    ``empty_cache()`` leaves its memory alone. When the pool is gone, and no graph or thread has it any more, what is
    unused of it goes back to the driver at once; tensors that outlive it stay valid. With ``use_on_oom`` its free
    memory also serves allocations outside of it, on the same stream, that would else be out of memory. There are no
    allocators to choose from, since memory is the driver's to give, and segments are split: ``allocator`` and
    ``no_split`` raise NotImplementedError.
    """

    def __init__(self, allocator: object | None = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError(
                f"MemPool: allocator={allocator!r} is not supported: memory comes from the device's driver "
                "(memory_alloc of driver.h); leave it out"
            )
        if no_split:
            raise NotImplementedError("MemPool: no_split=True is not supported: segments are split; leave it out")
        init()
        super().__init__(use_on_oom)

    @property
    def id(self) -> tuple[int, int]:
        """The pool's id, which no other has: as ``pool`` of a graph, or in a snapshot."""
        first, second = super().id
        return first, second

    @property
    def allocator(self) -> None:
        """None: the driver's memory."""
        return

    def use_count(self) -> int:
        """How many have it: this object, graphs, and each time that a thread has entered it."""
        return int(super().use_count())

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """The pool's segments, as :func:`memory_snapshot` has them. There are no traces to include."""
        return memory_snapshot(self.id, include_traces)

    def __repr__(self) -> str:
        rows = self._rows()
        lines = [f"<torch.{DEVICE_NAME}.MemPool id={self.id} use_count={self.use_count()}>"]
        lines += [
            f"  device {device}: {used} of {total} bytes in use, in {count} segments"
            for device, count, total, used in rows
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        title = f"MemPool {self.id}, use count {self.use_count()}"
        return f"{paragraph(title)}{table(('device', 'segments', 'bytes', 'in use'), self._rows())}"

    def _rows(self) -> list[tuple[int, int, int, int]]:
        """By device: segments, their bytes, and those that are in use."""
        found: dict[int, list[dict[str, Any]]] = {}
        for segment in self.snapshot():
            found.setdefault(segment["device"], []).append(segment)
        return [
            (device, len(all_of), sum(s["total_size"] for s in all_of), sum(s["allocated_size"] for s in all_of))
            for device, all_of in sorted(found.items())
        ]


@contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Context manager: what this thread allocates on ``device``, by default the current one, comes from ``pool``.

    The innermost pool counts, a graph's too: a capture that begins inside allocates from its graph's pool. Other
    threads are not affected.
    """
    index = device_index(device)
    pool._enter(index)
    try:
        yield
    finally:
        pool._leave(index)
