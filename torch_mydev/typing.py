"""Names of the device that type checkers cannot see, since they are made when torch is imported.

    from torch_mydev.typing import Tensor, mydev

    def move(x: Tensor) -> Tensor:
        mydev.synchronize()
        return x.mydev()

``mydev`` is ``torch.mydev`` itself, and ``Tensor`` and ``Module`` are torch's own classes, with the methods of the
device where a checker reads them. ``typed`` gives a tensor that comes from elsewhere that type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import torch_mydev  # noqa: F401  (makes the device known)
from torch_mydev.device import device_module

if TYPE_CHECKING:
    from typing_extensions import Self

    class Tensor(torch.Tensor):
        """torch.Tensor, with what the device adds."""

        @property
        def is_mydev(self) -> bool:
            """Whether the tensor is on the device."""

        def mydev(
            self,
            device: torch.device | int | str | None = None,
            non_blocking: bool = False,
            *,
            memory_format: torch.memory_format = torch.preserve_format,
        ) -> Tensor:
            """The tensor on the device; itself where it is there already."""

    class Module(torch.nn.Module):
        """torch.nn.Module, with what the device adds."""

        def mydev(self, device: torch.device | int | str | None = None) -> Self:
            """Moves all parameters and buffers to the device."""
else:
    Tensor, Module = torch.Tensor, torch.nn.Module

mydev = device_module


def typed(tensor: torch.Tensor) -> Tensor:
    """The same tensor, for type checkers one with the device's methods."""
    return tensor  # type: ignore[return-value]
