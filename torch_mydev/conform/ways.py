"""How the device computed what it was given: by which kernels, or by PyTorch's own on the CPU."""

from __future__ import annotations

import functools

from torch_mydev import _C
from torch_mydev.conform.operators.row import WAYS, Way
from torch_mydev.device.statistics import LaunchStatistics
from torch_mydev.observe.fallback import FallbackCensus


@functools.cache
def _kernels_of_the_driver() -> frozenset[str] | None:
    """The names of the kernels that the driver lists; None if all launches are its own, since the host's kernels do
    not reach the memory."""
    if not _C.device_properties(0)["host_accessible"]:
        return None
    return frozenset(kernel["name"] for kernel in _C.drivers_kernels(0))


def ways_of(statistics: LaunchStatistics, census: FallbackCensus) -> tuple[Way, ...]:
    """The ways in which the commands that both counted were computed, from good to bad."""
    fell_back = {row.op for row in census.rows}
    own = _kernels_of_the_driver()
    found: set[Way] = {"falls back"} if fell_back else set()
    for row in statistics.rows:
        if row.name in fell_back or row.kind in ("copy", "fill"):
            continue
        if row.portable:
            found.add("portable")
        if row.kind == "host call":
            found.add("host")
        elif row.calls > row.portable:
            found.add("native" if own is None or row.name in own else "host")
    return tuple(way for way in WAYS if way in found)
