"""Builds the distributions of this tree: setuptools drives CMake and Ninja (see CMakeLists.txt).

The pyproject.toml of the directory in which it runs says which: torch_mydev at the root of the tree, mydev in
packaging/mydev. In place or in editable form, the build stays in build/release, for the next one, wheels included. If
there is none, a wheel (so `pip install .` too) is built in a temporary directory, and leaves nothing behind.

Environment: CMAKE_ARGS is added to the configure step; CMAKE_BUILD_PARALLEL_LEVEL limits the number of compilers that
run at once; BUILD_COMPONENT=torch leaves out the plugin of JAX and PyTorch/XLA.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent.resolve()
TORCH = runpy.run_path(str(ROOT / "torch_mydev" / "_torch_version.py"))


class Distribution(NamedTuple):
    """A part of the tree, and how it is built."""

    packages: list[str]  #: Python's; CMake installs into the first
    components: list[str]  #: of CMake's installation
    targets: list[str]
    for_any_python: bool


DISTRIBUTIONS = {
    "mydev": Distribution(["mydev", "pjrt_mydev"], ["mydev", "pjrt"], ["build_mydev", "mydev_pjrt"], True),
    "torch_mydev": Distribution(["torch_mydev"], ["torch"], ["build_torch"], False),
}
PROJECT = Path("pyproject.toml").read_text()
NAME, VERSION = (re.search(rf'^{key} = "(.*)"$', PROJECT, re.MULTILINE)[1] for key in ("name", "version"))
DISTRIBUTION = DISTRIBUTIONS[NAME]


class CMakeBuild(build_ext):
    """Configures, builds and installs the native part: into the source tree, or into a wheel's.

    A wheel of torch_mydev has the part for the torch that it was built with; tools/join_wheels.py makes one of several.
    """

    def run(self) -> None:
        torch_version = _torch_version()
        build = ROOT / "build" / "release"
        if not self._in_place() and _configured(build).get("environment") != _built_with(torch_version):
            build = Path(self.build_temp).resolve()
            build.mkdir(parents=True, exist_ok=True)
        self._configure(build, torch_version)
        if self._in_place() and NAME == "torch_mydev":
            self._install_in_place(build, torch_version)
        else:
            of_pjrt = {"pjrt", "mydev_pjrt"} if _without_pjrt() else set()
            _build(build, *(target for target in DISTRIBUTION.targets if target not in of_pjrt))
            _install(build, self._prefix(), [part for part in DISTRIBUTION.components if part not in of_pjrt])

    def _install_in_place(self, build: Path, torch_version: str) -> None:
        """Builds and installs both distributions' parts, which the source tree has side by side."""
        _build(build, *(DISTRIBUTION.targets if _without_pjrt() else ["all"]))
        # The files that a build for another torch left in place are bound to the libraries that were replaced now.
        minor = ".".join(map(str, TORCH["minor_version"](torch_version)))
        for part in ROOT.glob("torch_mydev/lib/torch-*"):
            if part.name != f"torch-{minor}":
                shutil.rmtree(part)
        _install(build, ROOT, ["mydev", "torch"] if _without_pjrt() else [])
        if not _without_pjrt():
            _remove_stale(build / "install_manifest.txt")

    def get_outputs(self) -> list[str]:
        """The files that were installed; setuptools asks for them after run()."""
        return [str(path) for path in _native_files(self._prefix() / DISTRIBUTION.packages[0])]

    def get_output_mapping(self) -> dict[str, str]:
        """Nothing is copied from a build directory into the source tree: CMake installs in place."""
        return {}

    def _in_place(self) -> bool:
        return bool(self.inplace or self.editable_mode)

    def _prefix(self) -> Path:
        return ROOT if self._in_place() else Path(self.build_lib).resolve()

    def _configure(self, build: Path, torch_version: str) -> None:
        """Runs CMake's configure step, unless it ran before with these options, interpreter and torch.

        Options add up: what one command switched on (the tests, say) the next leaves on, and nothing is rebuilt.
        """
        environment = _built_with(torch_version)
        options = [f"-DPython_EXECUTABLE={sys.executable}", *shlex.split(os.environ.get("CMAKE_ARGS", ""))]
        options += [] if torch_version else ["-DMYDEV_BUILD_TORCH=OFF"]
        configured = _configured(build)
        # Objects made with another interpreter or torch are of no use, nor is what CMake found there.
        fresh = configured.get("environment") != environment
        known = [] if fresh else configured["options"]
        if not fresh and set(options) <= set(known):
            return
        _cmake(*(["--fresh"] if fresh else []), "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *options)
        options += [option for option in known if option.split("=")[0] not in {new.split("=")[0] for new in options}]
        (build / "configured.json").write_text(json.dumps({"environment": environment, "options": options}))


def _configured(build: Path) -> dict[str, list[str]]:
    """With what the build was configured; empty where it was not."""
    record = build / "configured.json"
    return json.loads(record.read_text()) if record.exists() else {}


def _built_with(torch_version: str) -> list[str]:
    """The things that a build is bound to."""
    return [sys.executable, torch_version, str(ROOT)]


def _without_pjrt() -> bool:
    return os.environ.get("BUILD_COMPONENT") == "torch"


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


def _install(build: Path, prefix: Path, components: list[str]) -> None:
    """Installs these components, or all without any."""
    for options in [["--component", component] for component in components] or [[]]:
        _cmake("--install", str(build), "--prefix", str(prefix), *options)


def _native_files(package: Path) -> list[Path]:
    return [path for part in ("lib", "include") for path in (package / part).rglob("*") if path.is_file()]


def _remove_stale(manifest: Path) -> None:
    """Removes what earlier builds installed in place and this one did not: libraries of another version, say."""
    installed = {Path(line) for line in manifest.read_text().splitlines()}
    for package in ("mydev", "torch_mydev"):
        for path in _native_files(ROOT / package):
            if path not in installed:
                path.unlink()


def _build(build: Path, *targets: str) -> None:
    """Builds these targets. Shows one line: percent, steps, and the time left; a pipe gets one for each tenth."""
    status = "building: %p, step %f of %t, %W left"
    environment = dict(_environment(), NINJA_STATUS=f"{status}\x1f")
    command = _cmake_command("--build", str(build), "--target", *targets)
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


def _torch_version() -> str:
    """The version of torch to build with; "" where mydev is built alone. Ends the build with an explanation where
    torch_mydev's is missing or of another version."""
    problem = TORCH["explain_build_problem"]()
    if problem and NAME == "torch_mydev":
        sys.exit(f"error: {problem}")
    return "" if problem else str(TORCH["installed_version"]())


def _requirements() -> list[str]:
    """torch_mydev runs with the minor version of torch that it is built with and no other, and with its own mydev."""
    if NAME == "mydev":
        return ["rich>=13"]
    try:
        pin = TORCH["pin_for"](TORCH["installed_version"]())
    except PackageNotFoundError:  # a source distribution; a build ends with an explanation
        pin = TORCH["PIP_PIN"]
    return [f"mydev=={VERSION}", f"torch=={pin}", "rich>=13"]


class Wheel(bdist_wheel):
    """A wheel for this platform, and for any Python where nothing in it is bound to one."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if DISTRIBUTION.for_any_python else (python, abi, platform)


class SourceDistribution(sdist):
    """The whole tree. mydev's has the pyproject.toml of packaging/mydev at its root."""

    def run(self) -> None:
        here = Path.cwd()
        if here == ROOT:
            super().run()
            return
        command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir"]
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([*command, scratch], cwd=ROOT, check=True)
            (archive,) = Path(scratch).glob("*.tar.gz")
            shutil.unpack_archive(archive, scratch)
            (tree,) = (path for path in Path(scratch).iterdir() if path.is_dir())
            shutil.copy(here / "pyproject.toml", tree)
            subprocess.run([*command, str(Path(self.dist_dir).resolve())], cwd=tree, check=True)
        self.archive_files = [str(Path(self.dist_dir) / f"{NAME}-{VERSION}.tar.gz")]


with tempfile.TemporaryDirectory(prefix=f"{NAME}-build-") as directory:
    setup(
        packages=find_packages(str(ROOT), include=[of for name in DISTRIBUTION.packages for of in (name, f"{name}.*")]),
        package_dir={"": os.path.relpath(ROOT)},
        long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
        long_description_content_type="text/markdown",
        install_requires=_requirements(),
        ext_modules=[Extension(f"{NAME}._C", sources=[])],  # so that the wheel is one for this platform
        cmdclass={"build_ext": CMakeBuild, "bdist_wheel": Wheel, "sdist": SourceDistribution},
        options={"build": {"build_base": directory}},
    )
