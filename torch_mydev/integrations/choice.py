"""The device where a library chooses by itself, as it would choose CUDA, and the one line that says so.

The line goes to stderr, once per library and process, in the first process of a host only. A program that was written
for the CPU or for CUDA is to say that it runs on this device, and not once per worker.
"""

from __future__ import annotations

import functools
import os
import sys

import torch

from torch_mydev._device_name import DEVICE_NAME


def is_accelerator() -> bool:
    """Whether the device is there, and the one that torch.accelerator has."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator is not None and accelerator.type == DEVICE_NAME


@functools.cache
def announce(library: str, for_the_cpu: str) -> None:
    """Says that ``library`` runs on the device. ``for_the_cpu``: what its users write where they want the CPU."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return
    print(
        f"{DEVICE_NAME}: {library} runs on the device '{DEVICE_NAME}' ({torch.accelerator.device_count()} found). "
        f"For the CPU: {for_the_cpu}, or MYDEV_INTEGRATIONS=off",
        file=sys.stderr,
        flush=True,
    )
