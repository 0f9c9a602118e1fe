"""Streams and events, with the names and meaning of ``torch.cuda``'s.

Work on one stream runs in order; work on different streams is unordered but for events. Each device has a default
stream and pools of streams by priority, which are handed out in turn. The current stream belongs to the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, NoReturn

import torch
from torch._C._autograd import DeviceType

from mydev.html_page import table
from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import (
    DeviceLike,
    device_index,
    get_device_properties,
    init,
    is_initialized,
)

_DEVICE_TYPE = int(DeviceType.PrivateUse1.value)


class Stream(torch.Stream):
    """A stream of a device's pool: ``Stream(device=None, priority=0)``; a negative priority is more urgent.

    Inside ``with``, it is the current stream, and its device the current device.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" in kwargs:  # a stream that exists: stream_id, device_index, device_type
            return super().__new__(cls, **kwargs)
        init()
        return super().__new__(cls, device=torch.device(DEVICE_NAME, device_index(device)), priority=priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the most urgent priority of the current device."""
        properties = get_device_properties()
        return properties.stream_priority_low, properties.stream_priority_high

    @property
    def priority(self) -> int:
        """Smaller is more urgent."""
        return int(_C.stream_priority(self.device_index, self.stream_id))

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records ``event``, or a new one, after the work given so far, and returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def launch_host_func(self, function: Callable[..., object], *args: Any, name: str | None = None) -> None:
        """Has the stream call ``function(*args)`` on the host after the work given so far; later work waits for it.

        Its result is dropped. An error that it raises is the stream's: the next wait raises it, with ``name`` (by
        default that of the function) and the line that launched it. It runs on a thread of the driver's, or at once
        if the driver has none, and may not wait for the device. A graph records it only with
        ``capture_error_mode="relaxed"`` and calls it at each replay.
        """
        if not callable(function):
            raise TypeError(f"launch_host_func: the function must be callable, not {function!r}")
        if name is None:
            name = getattr(function, "__qualname__", type(function).__qualname__)
        _C.launch_host_function(self.device_index, self.stream_id, name, partial(function, *args))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{DEVICE_NAME} streams cannot be pickled or sent to other processes: they belong to this one")

    def __repr__(self) -> str:
        return f"<torch.{DEVICE_NAME}.{type(self).__name__} device={self.device} id={self.stream_id}>"

    def _repr_html_(self) -> str:
        row = (str(self.device), self.stream_id, self.priority, "yes" if self.query() else "no")
        return table((type(self).__name__, "id", "priority", "done"), [row])


class ExternalStream(Stream):
    """A stream that belongs to someone else: ``ExternalStream(stream_ptr, device=None)``.

    ``stream_ptr`` is the driver's handle as an integer. Its owner keeps it alive until ``release()``, which makes any
    later use of this object an error.
    """

    def __new__(cls, stream_ptr: int, device: DeviceLike = None) -> ExternalStream:
        init()
        index = device_index(device)
        stream_id = _C.register_external_stream(index, stream_ptr)
        stream = super().__new__(cls, stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)
        assert isinstance(stream, ExternalStream)
        return stream

    def release(self) -> None:
        """Releases the handle. Its work must be done, and it must not be anyone's current stream."""
        _C.release_external_stream(self.device_index, self.stream_id)


class Event(torch.Event):
    """A point in a stream's work: ``Event(enable_timing=False, blocking=False, interprocess=False)``.

    ``elapsed_time`` needs ``enable_timing=True`` on both events. Several processes of this machine and user can
    share an event with ``interprocess=True``. They get it by ``from_ipc_handle``, or pickled through
    torch.multiprocessing, while the process that made it lives. Each may record it and wait for it. Such an event
    cannot measure time.
    """

    _handle: bytes = b""  # of an event of several processes

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        if interprocess and enable_timing:
            raise ValueError("an event of several processes (interprocess=True) cannot be made with enable_timing=True")
        event = super().__new__(cls, device=torch.device(DEVICE_NAME), enable_timing=enable_timing, blocking=blocking)
        return event._share(None, "") if interprocess else event

    def _share(self, device: DeviceLike, handle: str) -> Event:
        """Makes this one, which is new, an event of several processes: a new one, or that of the handle."""
        self.record(default_stream(device))  # so that the device's part of it exists; before it is shared
        self._handle = str(_C.share_event(self.event_id, handle)).encode()
        return self

    def record(self, stream: torch.Stream | None = None) -> None:
        """Records the event after the work that ``stream``, by default the current one, has been given so far."""
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Later work on ``stream``, by default the current one, waits for the event."""
        super().wait(current_stream() if stream is None else stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to ``end_event``; both made for timing, recorded and done, else RuntimeError."""
        return float(_C.event_elapsed_time(self.event_id, end_event.event_id))

    def ipc_handle(self) -> bytes:
        """The handle that another process gives ``from_ipc_handle``. RuntimeError without ``interprocess=True``."""
        if not self._handle:
            raise RuntimeError(
                f"this {DEVICE_NAME} event belongs to this process; make it with interprocess=True, or call "
                "synchronize() on it here and tell the other process by a message"
            )
        return self._handle

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> Event:
        """The event of another process, or of this one, whose ``ipc_handle()`` is ``handle``, for ``device``.

        RuntimeError for what is no handle, and if the process that made the event has ended.
        """
        if not handle:
            raise ValueError("an empty handle names no event; Event.ipc_handle() gives one")
        return cls()._share(device, handle.decode())

    def __reduce__(self) -> tuple[Any, ...]:
        return Event.from_ipc_handle, (self.device.index, self.ipc_handle())

    def __repr__(self) -> str:
        return f"<torch.{DEVICE_NAME}.Event {self.event_id:#x}>"

    def _repr_html_(self) -> str:
        row = (
            f"{self.event_id:#x}",
            str(self.device),
            "yes" if self.query() else "no",
            "yes" if self._handle else "no",
        )
        return table(("Event", "device", "done", "of several processes"), [row])


def _stream(index: int, stream_id: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


def current_stream(device: DeviceLike = None) -> Stream:
    """The calling thread's current stream of the device."""
    init()
    index = device_index(device)
    return _stream(index, _C.current_stream_id(index))


def default_stream(device: DeviceLike = None) -> Stream:
    """The device's default stream."""
    init()
    index = device_index(device)
    get_device_properties(index)  # raises for a device that does not exist
    return _stream(index, 0)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` current, and its device too. None changes nothing."""
    if stream is not None:
        _check_stream(stream)
        _C.set_current_stream(stream.device_index, stream.stream_id)


def _check_stream(stream: torch.Stream) -> None:
    if stream.device_type != _DEVICE_TYPE:
        raise ValueError(f"expected a {DEVICE_NAME} stream, not one of {stream.device}")


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    """Makes the stream of that id current; Dynamo's way to say it."""
    _C.set_current_stream(device_index, stream_id)


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> ExternalStream:
    """A stream for a handle that belongs to someone else."""
    return ExternalStream(data_ptr, device)


class StreamContext:
    """Context manager: ``stream`` is current inside, and so is its device. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        if stream is not None:
            _check_stream(stream)
        self.stream = stream
        self._previous_device_stream: Stream | None = None
        self._previous_stream: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._previous_device_stream = current_stream()
        self._previous_stream = current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_stream(self._previous_stream)  # of the stream's device
        set_stream(self._previous_device_stream)  # of the device that was current


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: ``stream`` is current inside."""
    return StreamContext(stream)


def _sleep(cycles: int) -> None:
    """Keeps the current stream busy for so many cycles, each of a nanosecond; for tests."""
    init()
    if cycles < 0:
        raise ValueError(f"the number of cycles must not be negative, but is {cycles}")
    _C.sleep(cycles)


def is_current_stream_capturing() -> bool:
    """Whether the current stream's work is being captured into a graph. Asking loads no driver."""
    return is_initialized() and current_stream().is_capturing()
