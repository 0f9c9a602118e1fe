"""Builds torch_mydev: setuptools drives CMake and Ninja (see CMakeLists.txt).

Environment: CMAKE_ARGS is added to the configure step; CMAKE_BUILD_PARALLEL_LEVEL limits the number of compilers that
run at once.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
PACKAGE = "torch_mydev"


class CMakeBuild(build_ext):
    """Configures, builds and installs the native part: into the source tree, or into a wheel's."""

    def run(self) -> None:
        # Ends the build with an explanation where torch is missing or of another version.
        version = runpy.run_path(str(ROOT / PACKAGE / "_torch_version.py"))
        problem = version["explain_build_problem"]()
        if problem:
            sys.exit(f"error: {problem}")
        build = ROOT / "build" / "release"
        self._configure(build, torch_version=version["installed_version"]())
        _cmake("--build", str(build))
        _cmake("--install", str(build), "--prefix", str(self._package_dir()))

    def get_outputs(self) -> list[str]:
        """What was installed; setuptools asks for it after run()."""
        package = self._package_dir()
        return [str(path) for pattern in ("_C*.so", "lib/*", "include/mydev/*") for path in package.glob(pattern)]

    def get_output_mapping(self) -> dict[str, str]:
        """Nothing is copied from a build directory into the source tree: CMake installs in place."""
        return {}

    def _package_dir(self) -> Path:
        in_place = self.inplace or self.editable_mode
        return (ROOT if in_place else Path(self.build_lib).resolve()) / PACKAGE

    def _configure(self, build: Path, torch_version: str) -> None:
        """Runs CMake's configure step, unless it ran before with these options, interpreter and torch.

        Options add up: what one command switched on (the tests, say) the next leaves on, and nothing is rebuilt.
        """
        environment = [sys.executable, torch_version, str(ROOT)]
        options = [f"-DPython_EXECUTABLE={sys.executable}", *shlex.split(os.environ.get("CMAKE_ARGS", ""))]
        record = build / "configured.json"
        configured = json.loads(record.read_text()) if record.exists() else {}
        # Objects made with another interpreter or torch are of no use, nor is what CMake found there.
        fresh = configured.get("environment") != environment
        known = [] if fresh else configured["options"]
        if not fresh and set(options) <= set(known):
            return
        _cmake(*(["--fresh"] if fresh else []), "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *options)
        options += [option for option in known if option.split("=")[0] not in {new.split("=")[0] for new in options}]
        record.write_text(json.dumps({"environment": environment, "options": options}))


def _cmake(*arguments: str) -> None:
    """Runs CMake, with the interpreter's own scripts (cmake, ninja) first on the path, whether activated or not."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("cmake", path=path)
    if program is None:
        sys.exit("error: cmake is not there; pip install -r requirements/build.txt")
    result = subprocess.run([program, *arguments], env=dict(os.environ, PATH=path), check=False)
    if result.returncode != 0:
        sys.exit(f"error: cmake {arguments[0]} failed; its messages are above")


setup(ext_modules=[Extension(f"{PACKAGE}._C", sources=[])], cmdclass={"build_ext": CMakeBuild})
