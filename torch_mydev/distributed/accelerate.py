"""Hugging Face's accelerate on the device, in one process or several.

accelerate has a list of the devices it knows, in which this one is not; in one process ACCELERATE_TORCH_DEVICE names
another, in several nothing does. ``use_device()`` makes accelerate's state, which ``Accelerator()`` then finds, before
accelerate chooses: nothing of it is patched. ``torchrun -m torch_mydev.accelerate script.py`` does so for a script that
is left as it is.

accelerate needs a name of its own for several devices of a kind, and gets one whose files it reads on the host first;
and it gives each process of a host a device of its own.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torch_mydev._device_name import DEVICE_NAME


def use_device(**process_group: Any) -> None:
    """Lets ``Accelerator()`` use the device, with the processes that torchrun has started.

    Call it before anything makes accelerate's state. ``process_group`` is what InitProcessGroupKwargs takes. Raises
    RuntimeError when the state exists, or when this host has more processes than devices.
    """
    state: Any = importlib.import_module("accelerate.state")
    if state.PartialState._shared_state:
        raise RuntimeError("accelerate has chosen a device already: call use_device() before Accelerator()")
    rank, count = int(os.environ.get("LOCAL_RANK", "0")), torch.accelerator.device_count()
    if rank >= count:
        raise RuntimeError(
            f"accelerate gives each process of a host a device of its own, and process {rank} has none: devices are "
            f"0 to {count - 1}. The host driver has as many as you ask for: MYDEV_DRIVER=host:devices={rank + 1}"
        )
    torch.accelerator.set_device_index(rank)
    os.environ["ACCELERATE_TORCH_DEVICE"] = f"{DEVICE_NAME}:{rank}"
    if "LOCAL_RANK" not in os.environ:
        state.PartialState()
        return
    process_group.setdefault("backend", f"cpu:gloo,{DEVICE_NAME}:{dist.get_default_backend_for_device(DEVICE_NAME)}")
    state.PartialState(**process_group).distributed_type = state.DistributedType.MULTI_XPU


def main() -> None:
    """Runs the script that the arguments name, with its arguments, as Python would."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: torchrun [option...] -m torch_mydev.accelerate script.py [argument...]")
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    use_device()
    runpy.run_path(sys.argv[0], run_name="__main__")
