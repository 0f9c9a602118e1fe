"""Attention under autograd's second order and torch.func's transformations, against its composition on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_mydev import dispatch_trace

Tensors = tuple[torch.Tensor, ...]

#: Query, key and value; options; sizes of an additive mask.
CASES: dict[str, tuple[list[tuple[int, ...]], dict[str, object], tuple[int, ...] | None]] = {
    "plain": ([(2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)], {}, None),
    "causal": ([(2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)], {"is_causal": True}, None),
    "scale": ([(2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)], {"scale": 0.3}, None),
    "mask": ([(2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)], {}, (5, 6)),
    "mask of heads": ([(2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)], {}, (2, 1, 5, 6)),
    "grouped heads": ([(2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)], {"enable_gqa": True}, None),
    "grouped causal": ([(2, 6, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)], {"enable_gqa": True, "is_causal": True}, None),
}


def operands(name: str, dtype: torch.dtype = torch.float32) -> tuple[list[torch.Tensor], dict[str, object]]:
    torch.manual_seed(0)
    shapes, options, mask = CASES[name]
    tensors = [torch.randn(shape).to(dtype) for shape in shapes]
    return tensors, {**options, "attn_mask": None if mask is None else torch.randn(mask).to(dtype)}


def to_device(options: dict[str, object]) -> dict[str, object]:
    return {key: value.to("mydev") if isinstance(value, torch.Tensor) else value for key, value in options.items()}


def second_gradients(tensors: list[torch.Tensor], options: dict[str, object]) -> Tensors:
    """Gradients of the sum of squares of gradients; the CPU can differentiate its composition only."""
    operands = [t.requires_grad_() for t in tensors]
    out = functional.scaled_dot_product_attention(*operands, **options)  # type: ignore[arg-type]
    first = torch.autograd.grad(out.sin().sum(), operands, create_graph=True)
    return (*first, *torch.autograd.grad(sum(g.square().sum() for g in first), operands))


@pytest.mark.parametrize("name", CASES)
def test_gradient_can_be_differentiated(name: str) -> None:
    tensors, options = operands(name)
    actual = second_gradients([t.to("mydev") for t in tensors], to_device(options))
    with sdpa_kernel(SDPBackend.MATH):
        expected = second_gradients(tensors, options)
    torch.testing.assert_close([a.detach().cpu() for a in actual], [e.detach() for e in expected])


def test_gradients_of_both_orders_are_right_in_double_precision() -> None:
    tensors, options = operands("grouped causal", torch.float64)
    on_device = [t.to("mydev").requires_grad_() for t in tensors]

    def attention(*operands: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(*operands, **to_device(options))  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(attention, on_device)
    assert torch.autograd.gradgradcheck(attention, on_device)


def test_low_precision_is_differentiated_in_f32() -> None:
    tensors, options = operands("causal", torch.bfloat16)
    actual = second_gradients([t.to("mydev") for t in tensors], options)
    with sdpa_kernel(SDPBackend.MATH):
        expected = second_gradients([t.float() for t in tensors], options)
    assert {a.dtype for a in actual} == {torch.bfloat16}
    torch.testing.assert_close([a.detach().cpu().float() for a in actual], list(expected), rtol=5e-2, atol=5e-2)


def test_first_gradient_alone_is_the_fused_kernels() -> None:
    tensors, _ = operands("plain")
    on_device = [t.to("mydev").requires_grad_() for t in tensors]
    lines: list[str] = []
    with dispatch_trace(lines):
        functional.scaled_dot_product_attention(*on_device).sum().backward()
    trace = "\n".join(lines)
    assert "kernel=[mydev.attention_backward]" in trace
    assert "softmax" not in trace


@pytest.mark.parametrize("causal", [False, True])
def test_grouped_heads_are_the_fused_kernels(causal: bool) -> None:
    tensors, _ = operands("grouped causal")
    on_device = [t.to("mydev").requires_grad_() for t in tensors]
    lines: list[str] = []
    with dispatch_trace(lines):
        out = functional.scaled_dot_product_attention(*on_device, is_causal=causal, enable_gqa=True)
        out.sum().backward()
    assert any("kernel=[mydev.attention_backward]" in line for line in lines)
    assert not any("repeat_interleave" in line for line in lines)
    expected = functional.scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(out.detach().cpu(), expected)
    assert out.stride() == expected.stride()


# --- torch.func ------------------------------------------------------------------------------------------------------

Program = Callable[..., torch.Tensor]


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value)


def causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def loss(*operands: torch.Tensor) -> torch.Tensor:
    return causal(*operands).square().sum()


TRANSFORMED: dict[str, tuple[Program, int]] = {
    "vmap": (torch.vmap(attention), 5),
    "vmap of causal": (torch.vmap(causal), 5),
    "vmap over another dimension": (torch.vmap(attention, in_dims=(1, 1, 1), out_dims=2), 5),
    "vmap with one operand": (lambda q, k, v: torch.vmap(attention, in_dims=(0, None, None))(q, k[0], v[0]), 5),
    "vmap of matrices": (torch.vmap(attention), 4),
    "vmap of vmap": (torch.vmap(torch.vmap(causal)), 6),
    "grad": (torch.func.grad(loss), 4),
    "vmap of grad": (torch.vmap(torch.func.grad(loss)), 5),
    "vmap of vjp": (
        torch.vmap(lambda q, k, v: torch.func.vjp(causal, q, k, v)[1](torch.ones_like(q))[1]),
        5,
    ),
    "grad of grad": (torch.func.grad(lambda q, k, v: torch.func.grad(loss)(q, k, v).square().sum()), 4),
    "jvp": (lambda q, k, v: torch.func.jvp(causal, (q, k, v), (k, v, q))[1], 4),
    "forward over reverse": (
        lambda q, k, v: torch.func.jvp(lambda q: torch.func.grad(loss)(q, k, v), (q,), (torch.ones_like(q),))[1],
        4,
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations(name: str) -> None:
    program, rank = TRANSFORMED[name]
    torch.manual_seed(0)
    tensors = [torch.randn(3, 2, 2, 2, 5, 8)[(0,) * (6 - rank)] for _ in range(3)]
    with sdpa_kernel(SDPBackend.MATH):
        expected = program(*tensors)
    torch.testing.assert_close(program(*[t.to("mydev") for t in tensors]).cpu(), expected)


def test_vmap_over_a_mask() -> None:
    torch.manual_seed(0)
    tensors = [*torch.randn(3, 3, 2, 4, 5, 8), torch.randn(3, 5, 5)]

    def masked(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    actual = torch.vmap(masked)(*[t.to("mydev") for t in tensors])
    torch.testing.assert_close(actual.cpu(), torch.vmap(masked)(*tensors))
