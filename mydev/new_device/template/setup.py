"""Builds the libraries with CMake before the package is put together. pyproject.toml has all else."""

import subprocess

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py


class BuildLibraries(build_py):
    def run(self):
        subprocess.run(["cmake", "-S", ".", "-B", "build"], check=True)
        subprocess.run(["cmake", "--build", "build", "--parallel", "2"], check=True)
        super().run()


class PlatformWheel(bdist_wheel):
    """For any Python on this platform."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_py": BuildLibraries, "bdist_wheel": PlatformWheel})
