"""Typed tensors, as ``torch.cuda.FloatTensor`` and its like: old names that programs still ask for.

``torch.mydev.FloatTensor(2, 3)`` makes an uninitialized tensor on the current device, ``FloatTensor([1.0])`` one of
values; ``isinstance(x, torch.mydev.FloatTensor)`` says whether a tensor is one, and ``x.type(torch.mydev.FloatTensor)``
makes it one.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_mydev._device_name import DEVICE_NAME

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


class _TensorType(type):
    """The metaclass of the types: their instances are tensors of the device and the dtype."""

    dtype: torch.dtype
    layout = torch.strided
    is_cuda = False
    is_sparse = False

    def __call__(cls, *args: Any) -> torch.Tensor:
        """The tensor that ``torch.FloatTensor(...)`` makes of the arguments, on the current device."""
        if len(args) == 1 and isinstance(args[0], torch.Tensor) and args[0].device.type == DEVICE_NAME:
            given = args[0].to(cls.dtype)
            return given.view(given.shape)
        if all(isinstance(size, int) for size in args) or (len(args) == 1 and isinstance(args[0], torch.Size)):
            sizes = args[0] if args and isinstance(args[0], torch.Size) else args or (0,)
            return torch.empty(sizes, dtype=cls.dtype, device=DEVICE_NAME)
        host: torch.Tensor = getattr(torch, cls.__qualname__)(*args)
        return host.to(DEVICE_NAME)

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == DEVICE_NAME
            and instance.dtype == cls.dtype
            and instance.layout == torch.strided
        )

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"


def _make(name: str, dtype: torch.dtype) -> _TensorType:
    # torch takes a type's name for that of the tensors to make: Tensor.type().
    made = _TensorType(f"torch.{DEVICE_NAME}.{name}", (), {"__qualname__": name, "__module__": f"torch.{DEVICE_NAME}"})
    made.dtype = dtype
    return made


TYPES = {name: _make(name, dtype) for name, dtype in _DTYPES.items()}


def set_default_tensor_type(tensor_type: type | str) -> bool:
    """Makes a type the default one: its dtype and the device. False where it is not one of the device's.

    Raises TypeError for a dtype that is not floating point, as torch does.
    """
    prefix = f"torch.{DEVICE_NAME}."
    name = tensor_type if isinstance(tensor_type, str) else tensor_type.__name__
    if not name.startswith(prefix) or name.removeprefix(prefix) not in TYPES:
        return False
    dtype = TYPES[name.removeprefix(prefix)].dtype
    if not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not {name}")
    torch.set_default_dtype(dtype)
    torch.set_default_device(DEVICE_NAME)
    return True
