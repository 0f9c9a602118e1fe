"""The part of ``mydev conform upstream`` that is about PyTorch: the program that runs its tests."""

from __future__ import annotations

from pathlib import Path

PROGRAM = str(Path(__file__).parents[2] / "conform" / "upstream_tests.py")  #: run by its path, which says why
