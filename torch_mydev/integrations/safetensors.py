"""safetensors: files are read straight to the device, by its name."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import device_index
from torch_mydev.integrations.integration import Integration


def _patch_safe_open(module: Any) -> None:
    """Lets ``safe_open`` and with it ``load_file`` read to the device by its name.

    Reason: the library parses the names of devices itself, from a list. A number it hands to torch, for which it is one
    of the accelerator; so the device's names become numbers.
    Limit: a program that takes ``safe_open`` from the library before anything imports torch has the former one, which
    refuses the name and takes the number.
    Remove when: safetensors hands names that it does not know to torch.
    """
    original = module.safe_open

    @functools.wraps(original)
    def safe_open(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        if str(device).partition(":")[0] == DEVICE_NAME:
            device = device_index(torch.device(device))
        return original(filename, framework, device=device, **options)

    module.safe_open = safe_open


INTEGRATION = Integration(
    name="safetensors",
    distribution="safetensors",
    since=(0, 4),
    before=(1, 0),
    actions={"safetensors": _patch_safe_open},
)
