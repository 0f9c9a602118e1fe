"""The path of the plugin's library, whether it can be loaded, and the name of its devices."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from mydev.drivers import chosen
from mydev.libraries import LIBRARIES, build_info


def library_path() -> Path:
    """The path of the plugin, whether it is there or not."""
    return LIBRARIES / "libmydev_pjrt.so"


def device_name() -> str:
    """The name of the devices, and of the platform in JAX."""
    return chosen().device_name


def check_library(path: Path) -> None:
    """Loads the plugin, for the driver that is chosen. Raises RuntimeError that says what is wrong with them.

    JAX itself would say no more than that it does not know the platform.
    """
    build_info()
    chosen().tell_runtime()
    if not path.exists():
        raise RuntimeError(f"the PJRT plugin {path} is not there; build it (make build) or install the wheel")
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise RuntimeError(f"the PJRT plugin {path} cannot be loaded: {error}") from error
    if not hasattr(library, "GetPjrtApi"):
        raise RuntimeError(f"{path} is no PJRT plugin: it does not export GetPjrtApi")
