"""Loading libraries of kernels by their file."""

from __future__ import annotations

import os
from dataclasses import dataclass

from torch_mydev import _C
from torch_mydev.custom_call.operators import sync_operators


@dataclass(frozen=True)
class KernelLibrary:
    """A library that was loaded."""

    file: str
    name: str
    version: str  #: the library's own
    abi: tuple[int, int]  #: version of mydev/custom_call.h that it was built with
    kernels: tuple[str, ...]  #: that were registered


def load_custom_calls(path: str | os.PathLike[str]) -> KernelLibrary:
    """Loads a library of kernels; those with a signature become ``torch.ops.mydev_cc.<name>``.

    The same file again is accepted and does nothing. Raises RuntimeError where there is no such file or it is for
    another ABI, and ValueError where it is no such library or one of its records is wrong; then none is registered.
    """
    library = KernelLibrary(*_C.load_kernel_library(os.path.abspath(path)))
    sync_operators()
    return library


def reload_custom_calls(path: str | os.PathLike[str]) -> KernelLibrary:
    """Loads a library anew and puts its kernels in the place of the old ones. For development: the old code stays."""
    library = KernelLibrary(*_C.reload_kernel_library(os.path.abspath(path)))
    sync_operators()
    return library


def libraries() -> list[KernelLibrary]:
    """The libraries that have been loaded, first to last."""
    return [KernelLibrary(*row) for row in _C.loaded_kernel_libraries()]
