"""A copy of the package with an installed package's metadata: its entry point exists, and a test may break it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.checkout import ROOT

ENTRY_POINTS = "[torch.backends]\ntorch_mydev = torch_mydev._entry_point:autoload\n"


class Installation:
    """A copy of the package in a directory of its own, with metadata."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.package = directory / "torch_mydev"
        self.libraries = directory / "mydev"  #: the package that has those without torch
        for name in ("mydev", "torch_mydev"):
            shutil.copytree(ROOT / name, directory / name, copy_function=os.symlink)
        self.path = [directory]
        self.working_directory = directory / "working_directory"
        self.working_directory.mkdir()
        self._add_metadata(directory, "torch_mydev", ENTRY_POINTS)

    def _add_metadata(self, directory: Path, name: str, entry_points: str) -> None:
        metadata = directory / f"{name}-0.1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        (metadata / "entry_points.txt").write_text(entry_points)

    def add_backend(self, name: str) -> None:
        """Installs another out-of-tree backend, which torch loads before ours."""
        directory = self.directory / "before"
        directory.mkdir()
        (directory / f"{name}.py").write_text(
            f"import torch\ndef autoload():\n    torch.utils.rename_privateuse1_backend('{name}')\n"
        )
        self.path.insert(0, directory)
        self._add_metadata(directory, name, f"[torch.backends]\n{name} = {name}:autoload\n")

    def replace(self, file: str, content: bytes) -> None:
        """Gives a file other content; the file that it was a link to is left alone."""
        path = self.package / file
        path.unlink()
        path.write_bytes(content)

    @property
    def torch_part(self) -> Path:
        """The folder that is bound to the version of torch that is installed."""
        (part,) = (self.package / "lib").glob("torch-*")
        return part

    def run(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            # Only this copy of the package is to be found: not the checkout's, nor another installed one. The working
            # directory, which Python searches first, holds none.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, self.path)), **environment},
            cwd=self.working_directory,
            capture_output=True,
            text=True,
            check=False,
        )
