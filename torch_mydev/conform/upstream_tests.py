"""The worker process for PyTorch's tests: a program, with a folder and a file for arguments.

It runs the tests that PyTorch makes for each type of device (``instantiate_device_type_tests``), for the type that
PYTORCH_TESTING_DEVICE_ONLY_FOR names. The CPU's side is a process whose torch does not know the device, so nothing of
torch_mydev is imported for it, and this file is run by its path.

A test is called as the file has it, without its device: ``TestViewOps.test_diagonal_float32``. If its class says what
hardware it is for (``hw_classification``, in newer PyTorch), only those for any accelerator are taken.
"""

from __future__ import annotations

import os
import re
import unittest
from types import ModuleType

from mydev.cli.conform.upstream.worker import Framework, serve

_ON_CPU = os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "cpu"


def _about() -> dict[str, str]:
    import torch

    if _ON_CPU:
        return {"version": torch.__version__, "device": "cpu"}
    from torch_mydev import _C, device_name

    torch.ones(2, device=device_name).cpu()
    return {"version": torch.__version__, "device": f"{device_name} ({_C.device_properties(0)['name']})"}


def _load(module: ModuleType) -> dict[str, tuple[type[unittest.TestCase], str]]:
    import torch
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_device_type import DeviceTypeTestBase

    common_utils.parse_cmd_line_args()  # as the file does where it is started as a program
    device = "cpu" if _ON_CPU else torch._C._get_privateuse1_backend_name()
    suffix = re.compile(rf"(.*)_{device}(?=_|$)(.*)")  # the last one: only dtypes come after the device
    found = {}
    for kind in list(vars(module).values()):
        made = isinstance(kind, type) and issubclass(kind, DeviceTypeTestBase) and kind.__module__ == module.__name__
        if not made or _hardware(kind) not in ("", "ACCELERATOR"):
            continue
        template = kind.__bases__[-1].__name__
        for method in unittest.defaultTestLoader.getTestCaseNames(kind):
            name = suffix.sub(r"\1\2", method)
            found[f"{template}.{name}"] = (kind, method)
    return found


def _hardware(kind: type) -> str:
    return getattr(getattr(kind, "hw_classification", None), "name", "")


def _synchronize() -> None:
    import torch

    if not _ON_CPU:
        torch.accelerator.synchronize()


if __name__ == "__main__":
    serve(Framework(_about, _load, _synchronize))
