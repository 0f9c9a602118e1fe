"""The CUDA driver on machines without a GPU: its stubs, and NVIDIA's compiler where its package is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from support.checkout import DRIVERS

STUB = DRIVERS / "cuda_stub.so"
CUBLASLT = DRIVERS / "cublaslt_stub.so"
CUDNN = DRIVERS / "cudnn_stub.so"


def cuda_driver(
    nvrtc: Path = DRIVERS / "nvrtc_stub.so", cublas: Path | str = CUBLASLT, cudnn: Path | str = CUDNN
) -> str:
    """The value of MYDEV_DRIVER for the stub of libcuda, with that compiler and libraries of kernels."""
    return f"cuda:library={STUB},nvrtc={nvrtc},cublas={cublas},cudnn={cudnn}"


def nvrtc_library() -> Path | None:
    """The compiler of requirements/cuda.txt; None where it is not installed."""
    try:
        named = files("nvidia-cuda-nvrtc") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in named if file.name == "libnvrtc.so.13"), None)
