"""Wheels of this tree, and environments in which nothing is installed but them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import torch

from support.checkout import ROOT

PROJECTS = {"mydev": ROOT / "packaging" / "mydev", "torch_mydev": ROOT}
#: The packages that the command line requires; they are not installed anew.
REQUIRED = ("rich", "pygments", "markdown_it", "mdurl")


def make_wheels(directory: Path) -> dict[str, Path]:
    """The wheels, by the name of the distribution. Nothing is compressed, which would take seconds."""
    made = {}
    for name, project in PROJECTS.items():
        options = ("--compression", "stored", "--dist-dir", directory)
        subprocess.run([sys.executable, "setup.py", "--quiet", "bdist_wheel", *options], cwd=project, check=True)
        (made[name],) = directory.glob(f"{name}-*.whl")
    return made


class Environment:
    """An environment with some wheels, and nothing else but what ``rich`` needs."""

    def __init__(self, directory: Path, *wheels: Path) -> None:
        self.directory = directory
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.install("--no-index", *wheels)
        (self.packages,) = directory.glob("lib/python3*/site-packages")
        for name in REQUIRED:
            spec = importlib.util.find_spec(name)
            assert spec is not None and spec.origin is not None
            (self.packages / name).symlink_to(Path(spec.origin).parent)

    def add_others(self) -> None:
        """Adds all that is installed beside torch, but not this checkout: after what the environment has itself."""
        (self.packages / "others.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")

    def install(self, *arguments: str | Path) -> None:
        """Runs pip for this environment. Nothing that is required is fetched."""
        python = str(self.directory / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-compile"]
        result = self._run([*pip, *arguments], self.directory)
        assert result.returncode == 0, result.stdout + result.stderr

    def run(self, *command: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, or a Python program, outside of the tree."""
        return self._run([self.directory / "bin" / command[0], *command[1:]], cwd or self.directory, **variables)

    def _run(self, command: list[str | Path], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYDEV_DRIVER")}
        # Programs of the environment come first; CMake is one of this interpreter's.
        programs = (str(self.directory / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
        return subprocess.run(
            command,
            cwd=cwd,
            env={**inherited, "PATH": os.pathsep.join(programs), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
