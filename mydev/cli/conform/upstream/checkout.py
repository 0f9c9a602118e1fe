"""A checkout of PyTorch or JAX: which of its files have tests for any device, and which version they are of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mydev.cli.conform.suite import ConformError, matches


@dataclass(frozen=True)
class Layout:
    """The places of things in a framework's checkout."""

    framework: str
    folder: str  #: of the tests
    files: str  #: the form of their names
    marker: str  #: the text of a file whose tests are for any device
    version_file: str
    version: str  #: a pattern, whose group is major.minor


PYTORCH = Layout("PyTorch", "test", "*.py", "instantiate_device_type_tests(", "version.txt", r"^(\d+\.\d+)")
JAX = Layout("JAX", "tests", "*_test.py", "absltest", "jax/version.py", r'^_version = "(\d+\.\d+)')


@dataclass(frozen=True)
class Checkout:
    """A folder with a framework's source."""

    layout: Layout
    root: Path

    @property
    def tests(self) -> Path:
        """The folder of its tests."""
        return self.root.resolve() / self.layout.folder

    def files(self, patterns: Sequence[str]) -> list[str]:
        """The files whose names a pattern fits, all without one. Raises ConformError where there is none."""
        layout, where = self.layout, f"{self.root}/{self.layout.folder}"
        if not self.tests.is_dir():
            raise ConformError(f"there is no folder {where}; give the root of a checkout of {layout.framework}")
        paths = sorted(path for path in self.tests.rglob(layout.files) if layout.marker in _text(path))
        names = [str(path.relative_to(self.tests)) for path in paths]
        if not names:
            raise ConformError(f"no file of {where} has tests for any device, with '{layout.marker}' in its text")
        for pattern in patterns:
            if not any(matches(name, pattern) for name in names):
                raise ConformError(f"no file of {where} with tests for any device has '{pattern}' in its name")
        return [name for name in names if not patterns or any(matches(name, pattern) for pattern in patterns)]

    def version(self) -> str:
        """The major and minor version that the checkout is of; "" where it does not say."""
        found = re.search(self.layout.version, _text(self.root / self.layout.version_file), re.MULTILINE)
        return found[1] if found else ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
