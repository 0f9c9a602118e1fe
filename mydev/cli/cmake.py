"""``cmake``: prints where the files are by which ``find_package(mydev)`` finds the package. Works without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mydev.cli.include import print_directory
from mydev.headers import cmake_dir


def run(arguments: Sequence[str]) -> int:
    """The subcommand: prints the directory; 1 where the files are not there, since the package was not built."""
    return print_directory(arguments, "cmake", "CMake's files", Path(cmake_dir()), "mydev-config.cmake")
