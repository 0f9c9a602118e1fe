"""Scaled dot-product attention against the CPU: every shape and option, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_mydev import dispatch_trace, fallback_mode


@dataclass
class Case:
    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    mask: tuple[int, ...] | None = None
    bool_mask: bool = False
    options: dict[str, object] = field(default_factory=dict)


CASES = {
    "unmasked": Case((2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8)),
    "other_key_length": Case((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "one_query": Case((2, 3, 1, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "causal": Case((2, 3, 6, 8), (2, 3, 6, 8), (2, 3, 6, 8), options={"is_causal": True}),
    "causal_rectangular": Case((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), options={"is_causal": True}),
    "scale": Case((2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8), options={"scale": 0.5}),
    "float_mask_2d": Case((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), mask=(5, 7)),
    "float_mask_4d": Case((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), mask=(2, 3, 5, 7)),
    "float_mask_broadcast": Case((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), mask=(2, 1, 1, 7)),
    "bool_mask_2d": Case((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), mask=(5, 7), bool_mask=True),
    "bool_mask_4d": Case((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), mask=(2, 1, 5, 7), bool_mask=True),
    "mask_3d": Case((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), mask=(3, 5, 7)),
    "operands_3d": Case((3, 5, 8), (3, 7, 8), (3, 7, 8)),
    "operands_3d_causal": Case((3, 5, 8), (3, 5, 8), (3, 5, 8), options={"is_causal": True}),
    "operands_5d": Case((2, 2, 3, 5, 8), (2, 2, 3, 5, 8), (2, 2, 3, 5, 8)),
    "value_of_another_width": Case((2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 6)),
    "broadcast_batch": Case((1, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8)),
    "grouped_heads": Case((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8), options={"enable_gqa": True}),
    "grouped_heads_causal": Case(
        (2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8), options={"enable_gqa": True, "is_causal": True}
    ),
    "long": Case((1, 2, 300, 64), (1, 2, 300, 64), (1, 2, 300, 64), options={"is_causal": True}),
    "one_query_float_mask": Case((2, 4, 1, 64), (2, 4, 130, 64), (2, 4, 130, 64), mask=(2, 1, 1, 130)),
    "one_query_bool_mask": Case((2, 4, 1, 64), (2, 4, 130, 64), (2, 4, 130, 64), mask=(2, 4, 1, 130), bool_mask=True),
    "one_query_of_many_keys": Case((2, 4, 1, 64), (2, 2, 300, 64), (2, 2, 300, 64), options={"enable_gqa": True}),
    "long_masked": Case((1, 2, 70, 20), (1, 2, 131, 20), (1, 2, 131, 20), mask=(70, 131), bool_mask=True),
}


def operands(case: Case, dtype: torch.dtype = torch.float32) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    torch.manual_seed(0)
    tensors = [torch.randn(*sizes).to(dtype) for sizes in (case.query, case.key, case.value)]
    if case.mask is None:
        return tensors, None
    mask = torch.randn(*case.mask)
    if case.bool_mask:
        # The first key is always visible, so that no row is empty.
        visible = mask > -0.5
        visible[..., 0] = True
        return tensors, visible
    return tensors, mask.to(dtype)


@pytest.mark.parametrize("name", CASES)
def test_matches_cpu_forward_and_backward(name: str) -> None:
    case = CASES[name]
    tensors, mask = operands(case)
    expected_in = [t.clone().requires_grad_() for t in tensors]
    actual_in = [t.to("mydev").requires_grad_() for t in tensors]
    expected = functional.scaled_dot_product_attention(*expected_in, attn_mask=mask, **case.options)
    actual = functional.scaled_dot_product_attention(
        *actual_in,
        attn_mask=None if mask is None else mask.to("mydev"),
        **case.options,
    )
    torch.testing.assert_close(actual.cpu(), expected)
    expected.sin().sum().backward()
    actual.sin().sum().backward()
    for a, e in zip(actual_in, expected_in, strict=True):
        assert a.grad is not None
        torch.testing.assert_close(a.grad.cpu(), e.grad)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["unmasked", "causal", "float_mask_4d", "bool_mask_2d"])
def test_other_dtypes(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    tensors, mask = operands(case, dtype)
    # The CPU rounds the weights to a half type, the device does not: the reference is in double.
    exact_mask = mask if mask is None or mask.dtype == torch.bool else mask.double()
    expected = functional.scaled_dot_product_attention(
        *[t.double() for t in tensors], attn_mask=exact_mask, **case.options
    ).to(dtype)
    on_device = [t.to("mydev") for t in tensors]
    device_mask = None if mask is None else mask.to("mydev")
    with fallback_mode("error"):
        actual = functional.scaled_dot_product_attention(*on_device, attn_mask=device_mask, **case.options)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("bool_mask", [False, True])
def test_rows_that_see_nothing_are_zero_and_without_gradient(bool_mask: bool) -> None:
    tensors, _ = operands(CASES["unmasked"])
    visible = torch.ones(5, 5, dtype=torch.bool)
    visible[2] = False
    mask = visible if bool_mask else torch.zeros(5, 5).masked_fill(~visible, -torch.inf)
    expected_in = [t.clone().requires_grad_() for t in tensors]
    actual_in = [t.to("mydev").requires_grad_() for t in tensors]
    expected = functional.scaled_dot_product_attention(*expected_in, attn_mask=mask)
    actual = functional.scaled_dot_product_attention(*actual_in, attn_mask=mask.to("mydev"))
    assert actual[..., 2, :].abs().sum().item() == 0
    torch.testing.assert_close(actual.cpu(), expected)
    expected.sin().sum().backward()
    actual.sin().sum().backward()
    torch.testing.assert_close([t.grad for t in actual_in], [t.grad for t in expected_in], check_device=False)


def test_mask_that_needs_a_gradient_gets_one() -> None:
    tensors, mask = operands(CASES["float_mask_4d"])
    assert mask is not None
    expected_mask = mask.clone().requires_grad_()
    actual_mask = mask.to("mydev").requires_grad_()
    functional.scaled_dot_product_attention(*tensors, attn_mask=expected_mask).sin().sum().backward()
    functional.scaled_dot_product_attention(
        *[t.to("mydev") for t in tensors], attn_mask=actual_mask
    ).sin().sum().backward()
    assert actual_mask.grad is not None
    torch.testing.assert_close(actual_mask.grad.cpu(), expected_mask.grad)


def test_non_contiguous_operands() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 5, 3, 8) for _ in range(3)]
    expected = functional.scaled_dot_product_attention(*[t.transpose(1, 2) for t in tensors])
    actual = functional.scaled_dot_product_attention(*[t.to("mydev").transpose(1, 2) for t in tensors])
    torch.testing.assert_close(actual.cpu(), expected)


def test_last_dimension_of_another_stride() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 3, 8, 5) for _ in range(3)]
    expected = functional.scaled_dot_product_attention(*[t.transpose(2, 3) for t in tensors])
    actual = functional.scaled_dot_product_attention(*[t.to("mydev").transpose(2, 3) for t in tensors])
    torch.testing.assert_close(actual.cpu(), expected)


def test_empty_sequence() -> None:
    query, key = torch.randn(2, 3, 0, 8), torch.randn(2, 3, 4, 8)
    actual = functional.scaled_dot_product_attention(query.to("mydev"), key.to("mydev"), key.to("mydev"))
    assert actual.shape == (2, 3, 0, 8)


def test_dropout_of_everything_is_zero() -> None:
    query = torch.randn(2, 3, 5, 8, device="mydev")
    assert functional.scaled_dot_product_attention(query, query, query, dropout_p=1.0).abs().sum().item() == 0


#: Sizes at which rows of weights are no whole blocks of random numbers.
DROPPED = (2, 3, 37, 16)


def dropped_weights(dropout: float, causal: bool, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """The weights that attention keeps: the value is the identity."""
    torch.manual_seed(0)
    query, key = (torch.randn(DROPPED, dtype=dtype, device="mydev") for _ in range(2))
    value = torch.eye(37, dtype=dtype, device="mydev").expand(2, 3, 37, 37)[..., :16]
    torch.manual_seed(seed)
    with fallback_mode("error"):
        out = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=causal)
    return out.cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_keeps_weights_or_drops_them(causal: bool, dtype: torch.dtype) -> None:
    whole, dropped = dropped_weights(0.0, causal, 1, dtype), dropped_weights(0.25, causal, 1, dtype)
    kept = dropped != 0
    torch.testing.assert_close(dropped, torch.where(kept, whole / 0.75, 0.0))
    rate = kept[whole != 0].double().mean().item()
    assert abs(rate - 0.75) < 0.05, rate
    assert not torch.equal(kept, dropped_weights(0.25, causal, 2, dtype) != 0)


@pytest.mark.parametrize("grouped", [False, True])
def test_dropout_has_the_gradient_of_what_it_kept(grouped: bool) -> None:
    torch.manual_seed(0)
    heads = 1 if grouped else 2
    sizes = [(2, 2, 3, 4), (2, heads, 5, 4), (2, heads, 5, 4)]
    tensors = [torch.randn(size, dtype=torch.float64, device="mydev").requires_grad_() for size in sizes]

    def attention(*operands: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return functional.scaled_dot_product_attention(*operands, dropout_p=0.3, enable_gqa=grouped)

    assert torch.autograd.gradcheck(attention, tensors)
    assert torch.autograd.gradgradcheck(attention, tensors)


def test_dropout_is_reproducible_and_differentiable() -> None:
    query = torch.randn(2, 3, 5, 8, device="mydev", requires_grad=True)
    torch.manual_seed(0)
    first = functional.scaled_dot_product_attention(query, query, query, dropout_p=0.5)
    torch.manual_seed(0)
    second = functional.scaled_dot_product_attention(query, query, query, dropout_p=0.5)
    torch.testing.assert_close(first.cpu(), second.cpu())
    first.sum().backward()
    assert query.grad is not None
    assert bool(query.grad.isfinite().all())


def used_ops(backend: SDPBackend | None = None) -> str:
    lines: list[str] = []
    query = torch.randn(2, 3, 5, 8, device="mydev")
    with dispatch_trace(lines):
        if backend is None:
            functional.scaled_dot_product_attention(query, query, query)
        else:
            with sdpa_kernel(backend):
                functional.scaled_dot_product_attention(query, query, query)
    return "\n".join(lines)


def test_fused_kernel_is_chosen() -> None:
    assert "_scaled_dot_product_fused_attention_overrideable" in used_ops()


def test_choice_can_be_restricted_to_math() -> None:
    assert "_scaled_dot_product_fused_attention_overrideable" not in used_ops(SDPBackend.MATH)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("unmasked", SDPBackend.OVERRIDEABLE),
        ("causal", SDPBackend.OVERRIDEABLE),
        ("bool_mask_2d", SDPBackend.OVERRIDEABLE),
        ("mask_3d", SDPBackend.MATH),
        ("operands_3d", SDPBackend.MATH),
        ("value_of_another_width", SDPBackend.MATH),
        ("broadcast_batch", SDPBackend.MATH),
        ("grouped_heads", SDPBackend.OVERRIDEABLE),
        ("grouped_heads_causal", SDPBackend.OVERRIDEABLE),
    ],
)
def test_choice_by_shape(name: str, backend: SDPBackend) -> None:
    case = CASES[name]
    tensors, mask = operands(case)
    choice = torch._fused_sdp_choice(
        *[t.to("mydev") for t in tensors],
        attn_mask=None if mask is None else mask.to("mydev"),
        **case.options,
    )
    assert SDPBackend(choice) == backend


def test_choice_with_dropout() -> None:
    query = torch.randn(2, 3, 5, 8, device="mydev")
    assert SDPBackend(torch._fused_sdp_choice(query, query, query, dropout_p=0.1)) == SDPBackend.OVERRIDEABLE


def test_dropout_under_a_transformation_is_composed() -> None:
    query = torch.randn(2, 2, 3, 5, 8, device="mydev")
    lines: list[str] = []
    with dispatch_trace(lines):
        torch.vmap(
            lambda one: functional.scaled_dot_product_attention(one, one, one, dropout_p=0.5), randomness="different"
        )(query)
    trace = "\n".join(lines)
    assert "_scaled_dot_product_fused_attention_overrideable" not in trace
    assert "native_dropout" in trace


def test_gradcheck_of_first_order() -> None:
    query, key, value = (torch.randn(1, 2, 3, 4, dtype=torch.float64).to("mydev").requires_grad_() for _ in range(3))
    assert torch.autograd.gradcheck(functional.scaled_dot_product_attention, (query, key, value))


@pytest.mark.parametrize("training", [False, True])
def test_transformer_layer_matches_cpu(training: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True).train(training)
    x = torch.randn(2, 5, 16)
    expected = layer(x)
    actual = layer.to("mydev")(x.to("mydev"))
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multihead_attention_matches_cpu(need_weights: bool) -> None:
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    expected, _ = attention(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    x, padding = x.to("mydev"), padding.to("mydev")
    actual, _ = attention.to("mydev")(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    torch.testing.assert_close(actual.cpu(), expected)
