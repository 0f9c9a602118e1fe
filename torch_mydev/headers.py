"""The directory of the files that extensions of the backend in C++ are built with."""

from __future__ import annotations

from pathlib import Path


def cmake_dir() -> str:
    """The directory to give to CMake as ``torch_mydev_DIR``: ``find_package(torch_mydev)`` finds the target
    ``torch_mydev::torch_mydev``, for libraries that ``torch.ops.load_library`` loads. Drivers and kernels
    are built with what is at ``mydev.cmake_dir()``."""
    return str(Path(__file__).resolve().parent / "lib/cmake/torch_mydev")
