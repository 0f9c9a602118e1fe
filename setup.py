"""Builds torch_mydev: setuptools drives CMake and Ninja (see CMakeLists.txt).

Environment: MYDEV_BUILD_DIR (default build/release) keeps the CMake tree; CMAKE_ARGS is added to the configure step.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()


class CMakeBuild(build_ext):
    """Configures, builds and installs the native part into the package directory."""

    def build_extension(self, ext: Extension) -> None:
        package_dir = ROOT if self.inplace else Path(self.build_lib).resolve()
        prefix = package_dir / "torch_mydev"
        build_dir = Path(os.environ.get("MYDEV_BUILD_DIR", ROOT / "build" / "release"))
        configure = [
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            str(build_dir),
            "-G",
            "Ninja",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={_pybind11_cmake_dir()}",
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        ]
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(build_dir)], check=True)
        subprocess.run(["cmake", "--install", str(build_dir), "--prefix", str(prefix)], check=True)


def _pybind11_cmake_dir() -> str:
    import pybind11

    return pybind11.get_cmake_dir()


setup(ext_modules=[Extension("torch_mydev._C", sources=[])], cmdclass={"build_ext": CMakeBuild})
