"""The path of the plugin's library, whether it can be loaded, and the name of its devices."""

from __future__ import annotations

import ctypes
import os
import runpy
from functools import cache
from pathlib import Path

# torch_mydev lies beside this package; both use its libraries. It is not imported, since that would import torch.
_TORCH_PACKAGE = Path(__file__).resolve().parent.parent / "torch_mydev"


def library_path() -> Path:
    """The path of the plugin, whether it is there or not."""
    return _TORCH_PACKAGE / "lib" / "libmydev_pjrt.so"


@cache
def device_name() -> str:
    """The name of the devices, and of the platform in JAX."""
    name = runpy.run_path(str(_TORCH_PACKAGE / "_device_name.py"))["DEVICE_NAME"]
    assert isinstance(name, str)
    return name


def check_library(path: Path) -> None:
    """Loads the plugin. Raises RuntimeError that says what is wrong with it.

    JAX itself would say no more than that it does not know the platform.
    """
    if not path.exists():
        raise RuntimeError(f"the PJRT plugin {path} is not there; build it (make build) or install the wheel")
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise RuntimeError(f"the PJRT plugin {path} cannot be loaded: {error}") from error
    if not hasattr(library, "GetPjrtApi"):
        raise RuntimeError(f"{path} is no PJRT plugin: it does not export GetPjrtApi")
