"""``torch.mydev.amp``: what ``torch.cuda.amp`` has, for this device, and what autocasting asks of the device.

The names are torch.amp's with the device filled in, so that a program written for ``torch.cuda.amp`` needs another
prefix only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch

from torch_mydev._device_name import DEVICE_NAME

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_amp_supported_dtype", "is_bf16_supported"]

_Method = Callable[..., Any]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast`` accepts for the device."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works. It always does: what has no kernel for it runs on the host's."""
    return True


class autocast(torch.amp.autocast_mode.autocast):
    """``torch.autocast`` for this device: a context manager, or a decorator."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool | None = True
    ) -> None:
        super().__init__(DEVICE_NAME, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler`` for this device: scales losses so that float16 gradients neither vanish nor overflow."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(DEVICE_NAME, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


@overload
def custom_fwd(fwd: _Method, *, cast_inputs: torch.dtype | None = None) -> _Method: ...
@overload
def custom_fwd(fwd: None = None, *, cast_inputs: torch.dtype | None = None) -> Callable[[_Method], _Method]: ...
def custom_fwd(fwd: _Method | None = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """``torch.amp.custom_fwd`` for this device: decorates ``forward`` of an autograd function.

    With ``cast_inputs``, ``forward`` runs without autocasting on inputs cast to that dtype, where autocasting is on.
    """
    return torch.amp.custom_fwd(fwd, device_type=DEVICE_NAME, cast_inputs=cast_inputs)


def custom_bwd(bwd: _Method) -> _Method:
    """``torch.amp.custom_bwd`` for this device: ``backward`` runs with the autocasting that ``forward`` had."""
    decorated: _Method = torch.amp.custom_bwd(bwd, device_type=DEVICE_NAME)
    return decorated
