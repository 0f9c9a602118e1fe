"""The libraries of kernels that are built for the tests, loaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import torch_mydev

_BUILD = Path(os.environ.get("MYDEV_BUILD_DIR", Path(__file__).resolve().parent.parent / "build" / "release"))
#: Kernels with records, and kernels of XLA's kinds.
OPERATOR_LIBRARY, XLA_LIBRARY = (_BUILD / "kernels" / f"{name}_kernels.so" for name in ("operator", "xla"))

for _library in (OPERATOR_LIBRARY, XLA_LIBRARY):
    if not _library.exists():
        pytest.skip(f"{_library} is not built: configure with -DMYDEV_BUILD_TESTS=ON", allow_module_level=True)

LIBRARIES = [torch_mydev.load_custom_calls(path) for path in (OPERATOR_LIBRARY, XLA_LIBRARY)]


def values(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """On the CPU, always the same."""
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(3))
