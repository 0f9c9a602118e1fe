"""The device as Dynamo and Inductor see it. Imported only together with Dynamo (registration.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    caching_worker_device_properties,
)

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device import amp, devices
from torch_mydev.device import stream as streams
from torch_mydev.device.devices import DeviceLike, DeviceProperties


class DynamoInterface(DeviceInterface):
    """Answers with what ``torch.mydev`` offers."""

    device = devices.device
    Event = streams.Event
    Stream = streams.Stream

    class Worker:
        """Answers in Inductor's forked workers too, where the device cannot be used: from what the parent recorded."""

        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices[DEVICE_NAME] = device

        @staticmethod
        def current_device() -> int:
            recorded = caching_worker_current_devices.get(DEVICE_NAME)
            return devices.current_device() if recorded is None else recorded

        @staticmethod
        def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
            recorded = caching_worker_device_properties.get(DEVICE_NAME)
            if recorded is None:
                recorded = [devices.get_device_properties(index) for index in range(devices.device_count())]
                caching_worker_device_properties[DEVICE_NAME] = recorded
            index = DynamoInterface.Worker.current_device() if device is None else devices.device_index(device)
            properties: DeviceProperties = recorded[index]
            return properties

    current_device = staticmethod(devices.current_device)
    set_device = staticmethod(devices.set_device)
    exchange_device = staticmethod(devices._exchange_device)
    maybe_exchange_device = staticmethod(devices._maybe_exchange_device)
    device_count = staticmethod(devices.device_count)
    is_available = staticmethod(devices.is_available)
    synchronize = staticmethod(devices.synchronize)
    get_compute_capability = staticmethod(devices.get_device_capability)
    stream = staticmethod(streams.stream)
    current_stream = staticmethod(streams.current_stream)
    set_stream = staticmethod(streams.set_stream)
    _set_stream_by_id = staticmethod(streams._set_stream_by_id)
    is_bf16_supported = staticmethod(amp.is_bf16_supported)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return int(_C.stream_handle(device_idx, _C.current_stream_id(device_idx)))

    @staticmethod
    def memory_allocated(device: DeviceLike = None) -> int:
        return torch.accelerator.memory_allocated(devices.device_index(device))

    @staticmethod
    def is_gpu() -> bool:
        """Inductor generates no code for a GPU without Triton, whatever the device's own code generator."""
        return False

    @staticmethod
    def get_cache_system_info() -> dict[str, object]:
        """Inductor's cache never gives code that another version of this package made."""
        from torch_mydev.compile.decompositions import code_version

        return {"code": code_version()}

    @staticmethod
    def get_cpp_device_options(aot_mode: bool, compile_only: bool) -> tuple[list[str], ...]:
        """C++ for the device is compiled as C++ for the host: nothing is added."""
        return ([], [], [], [], [], [], [])

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        """Every dtype works: what has no kernel for it runs on the host's."""
        return True

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False
