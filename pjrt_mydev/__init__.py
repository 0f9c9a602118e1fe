"""The PJRT plugin of this project, for JAX and other clients of the PJRT C API. Imports neither torch nor JAX.

JAX finds it by its entry point (group ``jax_plugins``) and calls `initialize`; other clients load `library_path()`.
Devices are those of the driver that the environment variable ``MYDEV_DRIVER`` names.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pjrt_mydev._library import device_name, library_path

if TYPE_CHECKING:
    from pjrt_mydev._kernels import Kernel

__all__ = ["device_name", "initialize", "kernel", "kernel_info", "library_path", "load_custom_calls", "program_text"]


def initialize(driver: str | None = None) -> None:
    """Registers the devices with JAX, which calls this when it looks for its platforms.

    ``driver`` chooses the devices, as MYDEV_DRIVER does: call this before JAX is used then. Raises RuntimeError where
    the library cannot be loaded or JAX is too old, which JAX logs and goes on without; and for a driver that comes too
    late.
    """
    from pjrt_mydev import _jax

    _jax.register(driver)


def load_custom_calls(path: str | os.PathLike[str]) -> str:
    """Loads a library of kernels and gives its file; the same file again does nothing. Its code runs at once.

    Raises ValueError where there is no such file, or one of its records is wrong, and RuntimeError where it is for
    another version of the interface. Libraries that MYDEV_CUSTOM_CALLS names are loaded when a kernel is looked up.
    """
    from pjrt_mydev import _records

    return _records.load_custom_calls(path)


def kernel_info(name: str) -> dict[str, Any]:
    """The contents of a kernel's record, as in `torch_mydev.kernel_info`. Raises ValueError if there is none."""
    from pjrt_mydev import _records

    return _records.kernel_info(name)


def kernel(name: str) -> Kernel:
    """A function of JAX that calls the kernel, differentiable and batched as its record says.

    Raises ValueError if there is no such kernel, NotImplementedError for one whose record has no signature.
    """
    from pjrt_mydev._kernels import Kernel

    initialize()
    return Kernel(name)


def program_text(compiled: Any) -> str:
    """Which kernels run, in what memory: the text of the program that JAX's `lowered.compile()` gave.

    ``compiled.as_text()`` is what JAX sent, as HLO. Raises ValueError for a program of another platform.
    """
    from pjrt_mydev import _records

    return _records.program_text(_records.fingerprint(compiled))
