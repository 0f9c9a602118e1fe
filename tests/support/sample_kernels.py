"""The libraries of kernels that are built for the tests, loaded."""

from __future__ import annotations

import pytest
import torch

import torch_mydev

from .checkout import KERNELS

#: Kernels with records, kernels of XLA's kinds, and kernels whose signatures are contracts.
OPERATOR_LIBRARY, XLA_LIBRARY, CONTRACT_LIBRARY = (
    KERNELS / f"{name}_kernels.so" for name in ("operator", "xla", "contract")
)

for _library in (OPERATOR_LIBRARY, XLA_LIBRARY, CONTRACT_LIBRARY):
    if not _library.exists():
        pytest.skip(f"{_library} is not built: configure with -DMYDEV_BUILD_TESTS=ON", allow_module_level=True)

LIBRARIES = [torch_mydev.load_custom_calls(path) for path in (OPERATOR_LIBRARY, XLA_LIBRARY, CONTRACT_LIBRARY)]


def values(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """On the CPU, always the same."""
    return torch.randn(sizes, dtype=dtype, generator=torch.Generator().manual_seed(3))
