"""The places where torch itself has to be patched, each with its reason and the condition of its removal.

Nothing else in this package changes torch's objects.
"""

from __future__ import annotations

import enum
import functools

import torch

from torch_mydev._device_name import DEVICE_NAME


def apply() -> None:
    """Applies every patch; called once, at registration."""
    _patch_dlpack_device()


def _patch_dlpack_device() -> None:
    """Lets ``torch.from_dlpack(tensor)`` and other consumers of the DLPack protocol take tensors of the device.

    Reason: torch's ``Tensor.__dlpack_device__`` compares the device's type with "privateuse1", which it never is: not
    before the backend is renamed ("privateuseone"), nor after. It then raises "Unknown device type".
    Remove when: the method asks torch._C._torchDeviceToDLDevice, as its consumer torch.utils.dlpack does.
    """
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> tuple[enum.IntEnum, int]:
        if self.device.type != DEVICE_NAME:
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        device_type, index = torch._C._torchDeviceToDLDevice(self.device)
        return DLDeviceType(device_type), index

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]
