"""XLA's FFI headers as a version of jaxlib ships them, from its wheel, kept by version under ~/.cache/torch_mydev."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

_HEADERS = "jaxlib/include/"


def xla_headers(version: str) -> Path:
    """The include directory of a jaxlib; skips the test where its wheel can be neither found nor downloaded."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_mydev" / "xla_headers"
    directory = cache / version
    if not directory.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _extract(_download(version, Path(scratch)), Path(scratch) / "include")
            try:
                (Path(scratch) / "include").rename(directory)
            except OSError:
                if not directory.is_dir():  # else another process was faster
                    raise
    return directory


def _download(version: str, directory: Path) -> Path:
    # The newest wheels are for newer interpreters; of a wheel only its headers are used.
    command = [sys.executable, "-m", "pip", "download", f"jaxlib=={version}", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", "3.12", "--quiet", "--dest", str(directory)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(directory.glob("jaxlib-*.whl"))
    if result.returncode != 0 or not wheels:
        pytest.skip(f"jaxlib {version} cannot be downloaded: {result.stderr.strip().splitlines()[-1:]}")
    return wheels[0]


def _extract(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(_HEADERS + "xla/ffi/api/") and name.endswith(".h"):
                path = target / name.removeprefix(_HEADERS)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
