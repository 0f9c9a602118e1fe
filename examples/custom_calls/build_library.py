"""Builds the library of this directory, which takes CMake, a compiler and the installed headers: prints its path.

python examples/custom_calls/build_library.py [directory to build in]
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import mydev

SOURCE = Path(__file__).resolve().parent
DEFAULT = SOURCE.parents[1] / "build" / "example_kernels"


def build(directory: Path = DEFAULT, *options: str) -> Path:
    """Builds what changed; returns the library. Raises CalledProcessError with the compiler's messages."""
    directory.mkdir(parents=True, exist_ok=True)
    cmake = [sys.executable, "-m", "cmake"]
    configure = ["-S", str(SOURCE), "-B", str(directory), f"-Dmydev_DIR={mydev.cmake_dir()}", *options]
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes may want it at once
        for arguments in (configure, ["--build", str(directory)]):
            subprocess.run([*cmake, *arguments], check=True, stdout=subprocess.DEVNULL)
    return directory / "libexample_kernels.so"


if __name__ == "__main__":
    print(build(*map(Path, sys.argv[1:])))
