"""The device's random state beside a library's checkpoints, which keep the states of the devices that it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device import random


def save(directory: Any, process: int) -> None:
    """Writes the random states of all devices that this process sees."""
    torch.save(random.get_rng_state_all(), _file(directory, process))


def load(directory: Any, process: int) -> None:
    """Sets what save() wrote; does nothing where it did not, as in a checkpoint from another device."""
    file = _file(directory, process)
    if not file.exists():
        return
    states = torch.load(file, weights_only=True)
    random.set_rng_state_all(states[: torch.accelerator.device_count()])


def _file(directory: Any, process: int) -> Path:
    return Path(directory) / f"random_state_{DEVICE_NAME}_{process}.pt"
