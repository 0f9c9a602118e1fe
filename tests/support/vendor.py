"""A vendor's installed package, which brings a driver: a module and the metadata of a distribution, in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.checkout import DRIVERS, ROOT, environment

DRIVER = DRIVERS / "asynchronous_driver.so"
HOST_DRIVER = ROOT / "mydev" / "lib" / "libmydev_host_driver.so"


def install(folder: Path, name: str, answer: str, *, before: str = "", package: str = "") -> None:
    """Installs the package ``name-torch`` with the device ``name``. ``answer``: what its function returns, as code."""
    package = package or f"{name}-torch"
    module = package.replace("-", "_")
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(f"{before}\ndef driver():\n    return {answer}\n")
    add_metadata(folder, package, name, f"{module}:driver")


def add_metadata(folder: Path, package: str, name: str, function: str) -> None:
    """Makes the folder's files an installed package with the entry point ``name``."""
    metadata = folder / f"{package.replace('-', '_')}-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(f"[mydev.drivers]\n{name} = {function}\n")


def run(folder: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python where the packages of the folder are installed, and MYDEV_DRIVER is what ``variables`` say."""
    inherited = environment(**{"MYDEV_DRIVER": "", **variables})
    inherited["PYTHONPATH"] += f"{os.pathsep}{folder}"
    return subprocess.run(
        [sys.executable, *map(str, arguments)], env=inherited, cwd=folder, capture_output=True, text=True, check=False
    )
