"""Devices: how many, which one is current, what they are, waiting for them.

The driver is loaded by the first call that needs a device, not before. The current device belongs to the thread.
Wherever a device is asked for, an index, a string (``"mydev:1"``), a torch.device, or None for the current one will do.
"""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME

DeviceLike = torch.device | str | int | None


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of a device that its driver reports."""

    name: str
    driver: str
    driver_version: str  #: of the vendor's software where the driver tells it, else of the driver
    total_memory: int  #: bytes
    alignment: int  #: bytes, of every allocation
    major: int  #: of the compute capability
    minor: int
    multi_processor_count: int
    uuid: uuid.UUID  #: the same for the same hardware in each process; of version 8 where the driver tells none
    architecture: str  #: what code is compiled for, as ``"sm_90"``
    native_dtypes: tuple[torch.dtype, ...]  #: that the hardware computes in; empty where the driver does not tell
    max_allocation: int  #: bytes of the largest allocation
    shared_memory_per_block: int  #: bytes that the threads of one multiprocessor share; 0: not known
    memory_bandwidth: int  #: bytes per second, at most; 0: not known
    stream_priority_low: int  #: the least urgent; the larger number
    stream_priority_high: int
    host_accessible: bool  #: the host reads and writes device memory in place
    host_access_slow: bool  #: it does so slowly, so that graphs are not compiled for the host
    asynchronous: bool  #: work may still run when the call that started it has returned
    peer_access: bool  #: devices copy to each other without the host
    unified_memory: bool  #: kernels work on any memory of the process, so that tensors can be shared between processes


def device_index(device: DeviceLike = None) -> int:
    """The index that ``device`` stands for. Raises ValueError for a device of another type, TypeError for no device.

    The index is not checked: what uses it raises for one that does not exist.
    """
    if device is None:
        return int(_C.current_device())
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != DEVICE_NAME:
            raise ValueError(f"expected a device of type '{DEVICE_NAME}', not '{device}'")
        return int(_C.current_device()) if device.index is None else device.index
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"expected a torch.device, a string, an index or None for a device, not {device!r}")
    return device


# --- initialization ---------------------------------------------------------------------------------------------------

_lock = threading.RLock()
_initialized = False
_deferred: dict[str, Callable[[], None]] = {}


def init() -> None:
    """Loads the driver and makes the devices ready; a second call does nothing. Called by the first use of a device.

    Raises RuntimeError when the driver cannot be loaded, reports no device, or in a forked child of a process that had
    used a device.
    """
    global _initialized
    if is_initialized():
        return
    with _lock:
        if is_initialized():
            return
        if _C.device_count() == 0:
            problem = _C.driver_error()  # first: a wrong MYDEV_DRIVER has no value
            driver = "" if problem else _C.config_value("MYDEV_DRIVER")
            raise RuntimeError(problem or f"no {DEVICE_NAME} device: driver '{driver}' finds no hardware")
        _C.register_fork_handler()
        _initialized = True
        calls = list(_deferred.values())
        _deferred.clear()
        for call in calls:
            call()


def is_initialized() -> bool:
    """Whether devices have been made ready in this process."""
    return _initialized and not _C.in_bad_fork()


def _lazy_init() -> None:
    """torch calls this before it makes the first tensor on the device."""
    init()


def _lazy_call(purpose: str, function: Callable[[], None]) -> None:
    """Calls ``function`` once the devices are ready: now, or at the end of init(). Replaces one of the same purpose."""
    with _lock:
        if is_initialized():
            function()
        else:
            _deferred.pop(purpose, None)
            _deferred[purpose] = function


def _is_in_bad_fork() -> bool:
    """True in a forked child of a process that had used a device: nothing works there."""
    return bool(_C.in_bad_fork())


# --- which and how many -----------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether there is at least one device. Never raises; ``init()`` says what is wrong."""
    return bool(_C.device_count() > 0)


def device_count() -> int:
    """The number of devices; 0 when the driver cannot be loaded."""
    return int(_C.device_count())


def current_device() -> int:
    """Index of the calling thread's current device."""
    init()
    return int(_C.current_device())


def set_device(device: DeviceLike) -> None:
    """Makes ``device`` the calling thread's current device. Raises IndexError or RuntimeError if it does not exist."""
    init()
    _C.set_device(device_index(device))


def _exchange_device(device: int) -> int:
    """Makes the device of that index current and returns the one that was; a negative index changes nothing."""
    return int(_C.exchange_device(device))


_maybe_exchange_device = _exchange_device


class device:
    """Context manager: ``device`` is the current device inside. None and negative indices change nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = _exchange_device(self.idx)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _exchange_device(self.prev_idx)


class device_of(device):
    """Context manager: the device of a tensor or storage is current inside. Objects elsewhere change nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(obj.device if obj.device.type == DEVICE_NAME else None)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all work on all streams of the device. Raises the first error of that work, if any failed.

    If no device was used yet, there is nothing to wait for, and no driver is loaded: torch.profiler calls this at the
    end of each profile, also in programs without the device.
    """
    if device is None and not _C.driver_loaded() and not _is_in_bad_fork():
        return
    init()
    _C.synchronize(device_index(device))


_SYNC_DEBUG_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Sets what happens if the host waits for the device: ``"default"`` (0, nothing), ``"warn"`` (1), ``"error"`` (2).

    These calls wait: ``item()``, copies that are not ``non_blocking``, operators that run on the host, and
    ``Stream.synchronize()``. Each is reported with the line of the program. ``synchronize()`` and waits for events are
    not reported, since their names say that they wait. The mode works on a device without asynchronous work too.
    """
    if isinstance(debug_mode, str) and debug_mode in _SYNC_DEBUG_MODES:
        debug_mode = _SYNC_DEBUG_MODES.index(debug_mode)
    if isinstance(debug_mode, str) or debug_mode not in range(len(_SYNC_DEBUG_MODES)):
        raise ValueError(f"the mode must be one of {_SYNC_DEBUG_MODES}, or its index, not {debug_mode!r}")
    _C.set_sync_debug_mode(int(debug_mode))


def get_sync_debug_mode() -> int:
    """The mode that set_sync_debug_mode has set, as a number."""
    return int(_C.sync_debug_mode())


# --- what they are ----------------------------------------------------------------------------------------------------


@functools.cache
def _properties(index: int) -> DeviceProperties:
    properties = _C.device_properties(index)
    properties["uuid"] = uuid.UUID(hex=properties["uuid"])
    properties["native_dtypes"] = tuple(getattr(torch, name) for name in properties["native_dtypes"])
    return DeviceProperties(**properties)


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """The properties of the device that its driver reports."""
    init()
    return _properties(device_index(device))


def get_device_name(device: DeviceLike = None) -> str:
    """The device's name."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Major and minor compute capability."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


# --- how busy they are ------------------------------------------------------------------------------------------------


def utilization(device: DeviceLike = None) -> int:
    """Percent of a recent period in which the device computed, for whichever process.

    Raises NotImplementedError where the driver does not tell, as the functions below. The built-in driver tells how
    busy the machine's processors were since the call before this one, over a tenth of a second at least.
    """
    return _measured(_C.utilization, device)


def memory_usage(device: DeviceLike = None) -> int:
    """Percent of a recent period in which the device's memory was read or written."""
    return _measured(_C.memory_utilization, device)


def temperature(device: DeviceLike = None) -> int:
    """Degrees Celsius."""
    return _measured(_C.temperature, device)


def power_draw(device: DeviceLike = None) -> int:
    """Milliwatts."""
    return _measured(_C.power_draw, device)


def clock_rate(device: DeviceLike = None) -> int:
    """Megahertz of what computes."""
    return _measured(_C.clock_rate, device)


def _measured(measure: Callable[[int], float], device: DeviceLike) -> int:
    init()
    return round(measure(device_index(device)))


# --- between them -----------------------------------------------------------------------------------------------------


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether copies between the two devices need no host memory."""
    init()
    return bool(_C.can_access_peer(device_index(device), device_index(peer_device)))
