"""Tests of what came with a version of torch, which older ones go without."""

from __future__ import annotations

import pytest
import torch

from torch_mydev._torch_version import minor_version


def needs_torch(version: str) -> pytest.MarkDecorator:
    """Skips the test where torch is older than ``version``, such as "2.15"."""
    is_older = minor_version(torch.__version__) < minor_version(version)
    return pytest.mark.skipif(is_older, reason=f"needs torch {version} or newer")
