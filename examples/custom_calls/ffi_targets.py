"""Handlers that were built for JAX, called from PyTorch: one of our own (ffi_handler.cpp), and jaxlib's."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import torch_mydev


# [docs: register-handler]
def register_clamp_rows(library: Path) -> None:
    """The handler of a shared object that knows nothing of mydev."""
    handlers = ctypes.CDLL(str(library))
    torch_mydev.register_ffi_target("clamp_rows", handlers.ClampRowsHandler)


def clamp_rows(x: Tensor, limits: Tensor, scale: float) -> Tensor:
    """Row i of x, kept within +-scale * limits[i]."""
    # numpy's scalars say the width that the handler asks for; a float of Python would be f64.
    return torch_mydev.ffi_call("clamp_rows", x)(x, limits, scale=np.float32(scale))


# [docs: end]


# [docs: jaxlib]
def register_jaxlib_cholesky() -> None:
    """LAPACK's Cholesky decomposition, from the handlers that are compiled into jaxlib."""
    from jaxlib import lapack

    lapack._lapack.initialize()
    handlers = {name: (capsule, version) for name, capsule, version in lapack.registrations()["cpu"]}
    capsule, api_version = handlers["lapack_spotrf_ffi"]
    torch_mydev.register_ffi_target("lapack_spotrf_ffi", capsule, api_version=api_version)


def cholesky(matrix: Tensor) -> Tensor:
    """The lower factor of a symmetric f32 matrix."""
    info = ((), torch.int32)
    column_major = [(1, 0), ()]
    factor, _ = torch_mydev.ffi_call(
        "lapack_spotrf_ffi", (matrix, info), input_layouts=[(1, 0)], output_layouts=column_major
    )(matrix, uplo=np.uint8(ord("L")))
    return factor.tril()


# [docs: end]


def main() -> None:
    """Solves nothing in particular: shows that the factor is one."""
    torch.manual_seed(0)
    register_jaxlib_cholesky()
    x = torch.randn(4, 4)
    matrix = (x @ x.T + torch.eye(4)).to(torch_mydev.device_name)
    factor = cholesky(matrix)
    print(f"largest error of the factor: {(factor @ factor.T - matrix).abs().max().item():.1e}")


if __name__ == "__main__":
    main()
