"""Zero tensors: tensors of zeros without memory, which autograd makes in place of tangents.

Forward-mode differentiation of a derivative hands zero tensors to operators. Core's handler of their key gives most of
them real zeros; copies, clones and inner products get them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from support.parity import assert_same

Maker = Callable[..., torch.Tensor]

# Functions of ``zero(*sizes)``, which makes a zero tensor, and ``full(*sizes)``, which makes one of 1, 2, 3, ….
FUNCTIONS: dict[str, Callable[[Maker, Maker], Any]] = {
    "copy_": lambda zero, full: full(2, 3).copy_(zero(2, 3)),
    "copy_ of a row": lambda zero, full: full(2, 3).copy_(zero(3)),
    "copy_ to a transposed": lambda zero, full: full(3, 2).t().copy_(zero(2, 3)),
    "copy_ with another dtype": lambda zero, full: full(2, 3).to(torch.int32).copy_(zero(2, 3)),
    "copy_ of a view": lambda zero, full: full(3, 2).copy_(zero(2, 3).t()),
    "clone": lambda zero, full: zero(2, 3).clone(),
    "clone of a view": lambda zero, full: zero(2, 3).t().clone(),
    "contiguous of a view": lambda zero, full: zero(2, 3).t().contiguous(),
    "to another dtype": lambda zero, full: zero(2, 3).to(torch.float64),
    "zeros_like": lambda zero, full: torch.zeros_like(zero(2, 3)),
    "full_like": lambda zero, full: torch.full_like(zero(2, 3), 3.0),
    "dot": lambda zero, full: torch.dot(zero(3), full(3)),
    "dot with a zero tensor": lambda zero, full: torch.dot(full(3), zero(3)),
    "vdot": lambda zero, full: torch.vdot(zero(3), full(3)),
    "vdot with a zero tensor": lambda zero, full: torch.vdot(full(3), zero(3)),
    "matrix product": lambda zero, full: zero(2, 3) @ full(3, 2),
    "product with a vector": lambda zero, full: full(2, 3) @ zero(3),
    "linalg.cross": lambda zero, full: torch.linalg.cross(zero(2, 3), full(2, 3)),
    "add": lambda zero, full: full(2, 3) + zero(2, 3),
    "add of a number": lambda zero, full: zero(2, 3) + 2,
    "subtract from": lambda zero, full: zero(2, 3) - full(2, 3),
    "multiply": lambda zero, full: zero(2, 3) * full(2, 3),
    "multiply by a number": lambda zero, full: zero(2, 3) * 2,
    "divide": lambda zero, full: zero(2, 3) / full(2, 3),
    "where": lambda zero, full: torch.where(full(3).abs() > 1, full(3), zero(3)),
    "cat": lambda zero, full: torch.cat([full(3), zero(3)]),
    "index_put": lambda zero, full: full(3).index_put((torch.tensor([0, 2], device=full(1).device),), zero(2)),
    "sum of an expanded": lambda zero, full: zero(3, 1).expand(3, 4).sum(0),
    "item": lambda zero, full: zero(1).item(),
    "cpu": lambda zero, full: zero(2, 3).cpu(),
}


def run(function: Callable[[Maker, Maker], Any], device: torch.device | str, dtype: torch.dtype) -> Any:
    def zero(*sizes: int) -> torch.Tensor:
        return torch._efficientzerotensor(sizes, dtype=dtype, device=device)

    def full(*sizes: int) -> torch.Tensor:
        count = torch.Size(sizes).numel()
        return torch.arange(1, count + 1, device=device).to(dtype).reshape(sizes)

    result = function(zero, full)
    return result.clone() if isinstance(result, torch.Tensor) else result


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_zero_tensors_count_as_zeros(name: str, dtype: torch.dtype, device: torch.device) -> None:
    torch.testing.assert_close(
        run(FUNCTIONS[name], device, dtype), run(FUNCTIONS[name], "cpu", dtype), check_device=False
    )


@pytest.mark.parametrize("write", [lambda z, t: z.copy_(t), lambda z, t: z.add_(t), lambda z, t: z.fill_(1)])
def test_zero_tensors_cannot_be_written(write: Callable[..., Any], device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="[Zz]ero ?[Tt]ensor"):
        write(torch._efficientzerotensor((3,), device=device), torch.ones(3, device=device))


def test_zero_tensors_can_be_copied_to_the_host(device: torch.device) -> None:
    host = torch.ones(3)
    host.copy_(torch._efficientzerotensor((3,), device=device))
    assert host.tolist() == [0, 0, 0]


def test_zero_tensors_of_the_host_can_be_copied(device: torch.device) -> None:
    tensor = torch.ones(3, device=device)
    tensor.copy_(torch._efficientzerotensor((3,)))
    assert tensor.tolist() == [0, 0, 0]


LOSSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": lambda x: x.abs().sum(),
    "sgn": lambda x: (x.sgn() * x).sum(),
    "norm(1)": lambda x: x.norm(1),
    "norm(2)": lambda x: x.norm(2),
    "norm(3)": lambda x: x.norm(3),
    "vector_norm(inf)": lambda x: torch.linalg.vector_norm(x, float("inf")),
    "vector_norm(0.5)": lambda x: torch.linalg.vector_norm(x, 0.5),
    "l1_loss": lambda x: torch.nn.functional.l1_loss(x, torch.zeros_like(x)),
    "smooth_l1_loss": lambda x: torch.nn.functional.smooth_l1_loss(x, torch.zeros_like(x)),
    "relu": lambda x: torch.relu(x).sum() ** 2,
    "softmax": lambda x: torch.softmax(x, 0)[0],
    "matrix product": lambda x: (torch.ones_like(x) @ x) ** 2,
    "inner product": lambda x: x @ x,
    "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(0).pow(3).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_hessian(name: str, device: torch.device) -> None:
    x = torch.tensor([0.5, -1.5, 2.0])
    hessian = torch.func.hessian(LOSSES[name])
    assert_same(hessian(x.to(device)), hessian(x), device)


@pytest.mark.parametrize("name", LOSSES)
def test_forward_over_reverse_by_dual_tensors(name: str, device: torch.device) -> None:
    def tangent(x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x.requires_grad_(), direction)
            (gradient,) = torch.autograd.grad(LOSSES[name](dual), dual, create_graph=True)
            found = torch.autograd.forward_ad.unpack_dual(gradient).tangent
            return torch.zeros_like(x) if found is None else found.clone()

    x, direction = torch.tensor([0.5, -1.5, 2.0]), torch.tensor([1.0, 2.0, -1.0])
    actual = tangent(x.to(device), direction.to(device))
    assert_same(actual.detach(), tangent(x.clone(), direction).detach(), device)


def test_sign_in_place_under_forward_differentiation(device: torch.device) -> None:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(3, device=device), torch.ones(3, device=device))
        result = torch.autograd.forward_ad.unpack_dual((dual * 2).sgn_())
        assert result.primal.tolist() == [1, 1, 1]
        assert result.tangent.clone().tolist() == [0, 0, 0]


def test_linearize_of_a_gradient(device: torch.device) -> None:
    def gradient(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda y: torch.ones(3, device=device) @ y)(x)

    output, tangent = torch.func.linearize(gradient, torch.ones(3, device=device))
    assert output.tolist() == [1, 1, 1]
    assert tangent(torch.ones(3, device=device)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("sizes", [(0,), (2, 0)])
def test_item_of_no_elements(sizes: tuple[int, ...], device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="Empty tensor not supported"):
        torch.ops.aten._local_scalar_dense(torch.randn(sizes, device=device))
