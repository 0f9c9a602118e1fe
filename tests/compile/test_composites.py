"""Operators of torch.library that torch.compile makes calls of the kernel of their name, if it takes them."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable

import pytest
import torch

import torch_mydev
from support.checkout import KERNELS

LIBRARY = KERNELS / "composite_kernels.so"
torch_mydev.load_custom_calls(LIBRARY)
CALLS: Callable[[], int] = ctypes.CDLL(str(LIBRARY)).composite_calls
ran: list[str] = []  # on which devices the operator's own function ran


# [docs: composite]
@torch.library.custom_op("acme::gelu_bias", mutates_args=())
def gelu_bias(x: torch.Tensor, bias: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    ran.append(x.device.type)
    return scale * torch.nn.functional.gelu(x + bias)


# [docs: end]


@gelu_bias.register_fake
def _(x: torch.Tensor, bias: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


def _setup(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[object, ...], output: torch.Tensor) -> None:
    x, bias, scale = inputs
    ctx.save_for_backward(x, bias)  # type: ignore[arg-type]
    ctx.scale = scale  # type: ignore[attr-defined]


def _backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, bias = ctx.saved_tensors  # type: ignore[attr-defined]
    found = torch.ops.aten.gelu_backward(grad * ctx.scale, x + bias)  # type: ignore[attr-defined]
    return found, found.sum_to_size(bias.shape), None


gelu_bias.register_autograd(_backward, setup_context=_setup)


def network(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return gelu_bias(x.sin(), bias, 2.5) * 2


@pytest.fixture(params=["inductor", "mydev_program"], autouse=True)
def backend(request: pytest.FixtureRequest) -> str:
    torch._dynamo.reset()
    ran.clear()
    return str(request.param)


@pytest.fixture
def operands() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(1)), torch.arange(8.0)


def test_the_kernel_of_the_name_is_called(backend: str, operands: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, bias = (operand.to("mydev") for operand in operands)
    before = CALLS()
    found = torch.compile(network, backend=backend, fullgraph=True)(x, bias)
    torch.testing.assert_close(found.cpu(), network(*operands))
    assert (CALLS() - before, "mydev" in ran) == (1, False)


def test_gradients_are_those_of_the_operator(backend: str, operands: tuple[torch.Tensor, torch.Tensor]) -> None:
    compiled = torch.compile(network, backend=backend, fullgraph=True)
    gradients = []
    for function, device in ((compiled, "mydev"), (network, "cpu")):
        x, bias = (operand.to(device).requires_grad_() for operand in operands)
        function(x, bias).square().sum().backward()
        gradients += [[x.grad, bias.grad]]
    for found, expected in zip(*gradients, strict=True):
        assert found is not None
        torch.testing.assert_close(found.cpu(), expected)
    assert "mydev" not in ran


@pytest.mark.parametrize(("width", "dtype"), [(9, torch.float32), (8, torch.float64)], ids=["plan", "dtype"])
def test_what_the_kernel_declines_is_the_operators_own(
    backend: str, width: int, dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    x, bias = torch.randn(2, width, dtype=dtype), torch.arange(width, dtype=dtype)
    before = CALLS()
    with caplog.at_level(logging.DEBUG, "torch_mydev.compile.composites"):
        found = torch.compile(network, backend=backend, fullgraph=True)(x.to("mydev"), bias.to("mydev"))
    torch.testing.assert_close(found.cpu(), network(x, bias))
    assert (CALLS() - before, "mydev" in ran) == (0, True)
    assert "acme.gelu_bias.default is not the kernel 'acme.gelu_bias'" in caplog.text


def test_without_a_kernel_it_is_the_operators_own(backend: str, operands: tuple[torch.Tensor, torch.Tensor]) -> None:
    torch_mydev.unregister_kernel("acme.gelu_bias")
    try:
        found = torch.compile(network, backend=backend, fullgraph=True)(*(each.to("mydev") for each in operands))
    finally:
        torch_mydev.reload_custom_calls(LIBRARY)
    torch.testing.assert_close(found.cpu(), network(*operands))
    assert "mydev" in ran
