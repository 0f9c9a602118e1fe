"""Embedding look-up and its gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from support.parity import assert_gradient_parity, assert_parity, raises_in_a_kernel


def table(rows: int = 12, width: int = 5, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).to(dtype)


def indices(*shape: int, rows: int = 12, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, rows, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 3, 4), (0,)])
def test_embedding(shape: tuple[int, ...], device: torch.device) -> None:
    assert_gradient_parity(lambda i, w: F.embedding(i, w), indices(*shape), table(), device=device)


@pytest.mark.parametrize("options", [{"padding_idx": 3}, {"padding_idx": -1}, {"scale_grad_by_freq": True}])
def test_embedding_options(options: dict[str, object], device: torch.device) -> None:
    assert_gradient_parity(lambda i, w: F.embedding(i, w, **options), indices(40), table(), device=device)


def test_embedding_max_norm(device: torch.device) -> None:
    assert_parity(lambda i, w: F.embedding(i, w, max_norm=1.0), indices(6), table(), device=device, native=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_embedding_in_other_types(dtype: torch.dtype, device: torch.device) -> None:
    assert_gradient_parity(
        lambda i, w: F.embedding(i, w), indices(9, dtype=torch.int32), table(dtype=dtype), device=device, native=False
    )


def test_embedding_of_strided_operands(device: torch.device) -> None:
    assert_parity(lambda i, w: F.embedding(i.t()[:, 1:], w.t()), indices(4, 6, rows=5), table(), device=device)


def test_large_embedding_gradient(device: torch.device) -> None:
    assert_gradient_parity(
        lambda i, w: F.embedding(i, w), indices(64, 32, rows=5000), table(rows=5000, width=64), device=device
    )


@pytest.mark.parametrize("bad", [12, -1])
def test_index_out_of_range_raises(bad: int, device: torch.device) -> None:
    with raises_in_a_kernel(IndexError, "index out of range in self"):
        F.embedding(torch.tensor([0, bad], device=device), table().to(device)).cpu()
