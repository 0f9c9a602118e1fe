"""The directories of the files that drivers and kernels are built with. Works without torch."""

from __future__ import annotations

from pathlib import Path


def include_dir() -> str:
    """The directory to give to a compiler with -I: ``mydev/custom_call.h``, ``mydev/driver.h`` and
    ``mydev/driver_extensions.h`` lie in it."""
    return str(Path(__file__).resolve().parent / "include")


def cmake_dir() -> str:
    """The directory to give to CMake as ``mydev_DIR``: ``find_package(mydev)`` finds the target ``mydev::headers``, and
    for typed-FFI handlers that register themselves ``mydev::xla_ffi``."""
    return str(Path(library_dir()) / "cmake/mydev")


def library_dir() -> str:
    """The directory to give to a linker with -L, and as RPATH, for typed-FFI handlers that register themselves: the
    ``libmydev_xla_ffi.so`` that they are linked with lies in it."""
    return str(Path(__file__).resolve().parent / "lib")
