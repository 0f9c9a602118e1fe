"""Builds torch_mydev: setuptools drives CMake and Ninja (see CMakeLists.txt).

In place or in editable form, the build stays in build/release, for the next one, wheels included. If there is none, a
wheel (so `pip install .` too) is built in a temporary directory, and leaves nothing behind.

Environment: CMAKE_ARGS is added to the configure step; CMAKE_BUILD_PARALLEL_LEVEL limits the number of compilers that
run at once; BUILD_COMPONENT=torch leaves out the plugin of JAX and PyTorch/XLA.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
PACKAGE = "torch_mydev"


class CMakeBuild(build_ext):
    """Configures, builds and installs the native part: into the source tree, or into a wheel's.

    A wheel has the part for the torch that it was built with; tools/join_wheels.py makes one for several.
    """

    def run(self) -> None:
        # Ends the build with an explanation where torch is missing or of another version.
        version = runpy.run_path(str(ROOT / PACKAGE / "_torch_version.py"))
        problem = version["explain_build_problem"]()
        if problem:
            sys.exit(f"error: {problem}")
        build = ROOT / "build" / "release"
        if not self._in_place() and not (build / "configured.json").exists():
            build = Path(self.build_temp).resolve()
            build.mkdir(parents=True, exist_ok=True)
        torch_version = version["installed_version"]()
        self._configure(build, torch_version)
        component = os.environ.get("BUILD_COMPONENT")
        _build(build, *(["--target", f"build_{component}"] if component else []))
        # The files that a build for another torch left in place are bound to the libraries that were replaced now.
        minor = ".".join(map(str, version["minor_version"](torch_version)))
        for part in self._package_dir().glob("lib/torch-*"):
            if part.name != f"torch-{minor}":
                shutil.rmtree(part)
        only = ["--component", component] if component else []
        _cmake("--install", str(build), "--prefix", str(self._package_dir()), *only)
        if component is None:
            self._remove_stale(build / "install_manifest.txt")

    def _remove_stale(self, manifest: Path) -> None:
        """Removes what earlier builds installed in place and this one did not: libraries of another version, say."""
        installed = {Path(line) for line in manifest.read_text().splitlines()}
        for path in map(Path, self.get_outputs()):
            if path not in installed:
                path.unlink()

    def get_outputs(self) -> list[str]:
        """The files that were installed; setuptools asks for them after run()."""
        package = self._package_dir()
        return [str(path) for part in ("lib", "include") for path in (package / part).rglob("*") if path.is_file()]

    def get_output_mapping(self) -> dict[str, str]:
        """Nothing is copied from a build directory into the source tree: CMake installs in place."""
        return {}

    def _in_place(self) -> bool:
        return bool(self.inplace or self.editable_mode)

    def _package_dir(self) -> Path:
        return (ROOT if self._in_place() else Path(self.build_lib).resolve()) / PACKAGE

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


def _environment() -> dict[str, str]:
    """The interpreter's own scripts (cmake, ninja) come first on the path, whether activated or not."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return dict(os.environ, PATH=path)


def _cmake_command(*arguments: str) -> list[str]:
    program = shutil.which("cmake", path=_environment()["PATH"])
    if program is None:
        sys.exit("error: cmake is not there; pip install -r requirements/build.txt")
    return [program, *arguments]


def _cmake(*arguments: str) -> None:
    """Runs CMake. Its warnings are always shown, its other messages if it fails."""
    result = subprocess.run(_cmake_command(*arguments), env=_environment(), stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{result.stdout}error: cmake {arguments[0]} failed; its messages are above")


def _build(build: Path, *options: str) -> None:
    """Builds, and shows one line: percent, steps, and the time that is left. A pipe gets a line for each tenth."""
    status = "building: %p, step %f of %t, %W left"
    environment = dict(_environment(), NINJA_STATUS=f"{status}\x1f")
    command = _cmake_command("--build", str(build), *options)
    shown = -1
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, errors="replace")
    assert process.stdout is not None
    for line in process.stdout:
        progress, separator, _ = line.partition("\x1f")
        if separator == "":  # a compiler's message, or what a failed command was
            print(line, end="", flush=True)
            continue
        percent = int(progress.split("%")[0].split()[-1])
        if sys.stdout.isatty():
            print(f"\r\x1b[K{progress}", end="", flush=True)
        elif percent // 10 > shown:
            print(progress, flush=True)
        shown = percent // 10
    if shown >= 0 and sys.stdout.isatty():
        print()
    if process.wait() != 0:
        sys.exit("error: the build failed; its messages are above")


def _requirements() -> list[str]:
    """The requirements at run time: the minor version of torch that it is built with and no other, and rich."""
    version = runpy.run_path(str(ROOT / PACKAGE / "_torch_version.py"))
    try:
        pin = version["pin_for"](version["installed_version"]())
    except PackageNotFoundError:  # a source distribution; a build ends with an explanation
        pin = version["PIP_PIN"]
    return [f"torch=={pin}", "rich>=13"]


with tempfile.TemporaryDirectory(prefix=f"{PACKAGE}-build-") as directory:
    setup(
        install_requires=_requirements(),
        ext_modules=[Extension(f"{PACKAGE}._C", sources=[])],  # so that the wheel is one for this platform and Python
        cmdclass={"build_ext": CMakeBuild},
        options={"build": {"build_base": directory}},
    )
