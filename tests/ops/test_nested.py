"""Nested tensors on the device, strided and jagged: making them, PyTorch's operators on them, and their gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_map

import torch_mydev

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")

Operator = Callable[[torch.Tensor], Any]

PARTS = [torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows)) for rows in (2, 5, 3)]


def like(tensor: torch.Tensor, *sizes: int) -> torch.Tensor:
    """The same numbers on any device."""
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes).to(tensor.device)


def nested(device: torch.device | str, layout: torch.layout = torch.strided, grad: bool = False) -> torch.Tensor:
    return torch.nested.nested_tensor(PARTS, device=device, layout=layout, requires_grad=grad)


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (2, 2)).transpose(1, 2)


def plain(result: Any) -> Any:
    """The same on the CPU, with nested tensors as their parts."""

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return [part.detach().cpu() for part in value.unbind()] if value.is_nested else value.detach().cpu()

    return tree_map(leaf, result)


def gradient(operator: Operator, x: torch.Tensor) -> Any:
    """Returns the gradient of the sum of the squares of the result; None where PyTorch has none."""
    try:
        result = operator(x)
        if not isinstance(result, torch.Tensor) or not result.requires_grad:
            return None
        parts = result.unbind() if result.is_nested else (result,)
        torch.stack([part.double().square().sum() for part in parts]).sum().backward()
    except RuntimeError:
        return None
    return plain(x.grad)


STRIDED: dict[str, Operator] = {
    "arithmetic": lambda x: (x * 2 + x) / 3 - x * x,
    "pointwise": lambda x: F.silu(F.gelu(x.relu())).tanh().abs().sin().cos().neg().sgn(),
    "sqrt": lambda x: (x * x).sqrt(),
    "linear": lambda x: F.linear(x, like(x, 6, 4), like(x, 6)),
    "matmul": lambda x: torch.matmul(x, x.transpose(-1, -2)),
    "bmm": lambda x: torch.bmm(x, x.transpose(-1, -2).contiguous()),
    "softmax": lambda x: x.softmax(-1),
    "_safe_softmax": lambda x: torch._safe_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (4,), like(x, 4), like(x, 4)),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "all": lambda x: (x > 0).all(-1),
    "unbind": lambda x: x.unbind()[1] * 2,
    "select": lambda x: x[1],
    "view": lambda x: x.view(3, -1, 2, 2),
    "reshape": lambda x: x.reshape(3, -1, 2, 2),
    "transpose": lambda x: x.transpose(-1, -2),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "chunk": lambda x: x.chunk(2, -1)[1],
    "split_with_sizes": lambda x: x.split([1, 3], -1)[1],
    "cat": lambda x: torch.cat([x, x]),
    "to_padded_tensor": lambda x: x.to_padded_tensor(0.5),
    "to_padded_tensor.size": lambda x: x.to_padded_tensor(0.0, (3, 7, 5)),
    "_nested_from_padded_and_nested_example": lambda x: torch._nested_from_padded_and_nested_example(
        x.to_padded_tensor(0.0), x
    ),
    "comparisons": lambda x: [x >= 0, x > 0, x.isnan(), x.isinf(), x.isposinf(), x.isneginf()],
    "masked_fill": lambda x: x.masked_fill(x > 0, 9.0),
    "in place": lambda x: x.clone().mul_(3).add_(x).relu_(),
    "filled": lambda x: [x.clone().fill_(3.0), x.clone().zero_(), torch.zeros_like(x), torch.ones_like(x)],
    "copies": lambda x: [torch.empty_like(x).copy_(x), x.clone(), x.to(torch.float64)],
    "dropout": lambda x: F.dropout(x, 0.0, training=True),
    "_nested_tensor_softmax_with_shape": lambda x: torch._nested_tensor_softmax_with_shape(
        x.to_padded_tensor(0.0).unsqueeze(1), x
    ),
    "_test_autograd_multiple_dispatch": torch._test_autograd_multiple_dispatch,
    "metadata": lambda x: [x._nested_tensor_size(), x._nested_tensor_strides(), x._nested_tensor_storage_offsets()],
}
JAGGED: dict[str, Operator] = {
    "arithmetic": lambda x: x * 2 + x,
    "broadcast": lambda x: x + like(x, 4),
    "linear": lambda x: F.linear(x, like(x, 6, 4), like(x, 6)),
    "matmul": lambda x: torch.matmul(x, like(x, 4, 6)),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "mean": lambda x: x.mean(-1),
    "unbind": lambda x: x.unbind()[1],
    "clone": lambda x: x.clone(),
    "to_padded_tensor": lambda x: x.to_padded_tensor(0.0),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
}
CASES = [(torch.strided, name) for name in STRIDED] + [(torch.jagged, name) for name in JAGGED]


@pytest.mark.parametrize(("layout", "name"), CASES, ids=[f"{layout}-{name}" for layout, name in CASES])
def test_operator(device: torch.device, layout: torch.layout, name: str) -> None:
    operator = (STRIDED if layout == torch.strided else JAGGED)[name]
    torch.testing.assert_close(plain(operator(nested(device, layout))), plain(operator(nested("cpu", layout))))
    expected = gradient(operator, nested("cpu", layout, grad=True))
    torch.testing.assert_close(gradient(operator, nested(device, layout, grad=True)), expected)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_copies_between_devices(device: torch.device, layout: torch.layout) -> None:
    moved = nested("cpu", layout).to(device)
    assert moved.device.type == device.type
    assert moved.cpu().device.type == "cpu"
    torch.testing.assert_close(plain(moved), PARTS)
    made = torch.nested.as_nested_tensor([part.to(device) for part in PARTS], layout=layout)
    assert made.device.type == device.type
    torch.testing.assert_close(plain(made), PARTS)


def test_printing(device: torch.device) -> None:
    text = repr(nested(device))
    assert text.startswith("nested_tensor([")
    assert text.count("tensor([[") == len(PARTS)


def test_parts_share_memory(device: torch.device) -> None:
    x = nested(device)
    x.unbind()[1].zero_()
    torch.testing.assert_close(plain(x), [PARTS[0], torch.zeros(5, 4), PARTS[2]])


def test_operators_that_no_device_has_are_named(device: torch.device) -> None:
    with pytest.raises(NotImplementedError, match="aten::cumsum.* has a kernel for nested tensors"):
        nested(device).cumsum(-1)


# --- the fast path of nn.TransformerEncoder ---------------------------------------------------------------------------

MASKS = {
    "at the end": torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]]).bool(),
    "with gaps": torch.tensor([[0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]]).bool(),
}


@pytest.fixture(params=[False, True], ids=["norm last", "norm first"])
def encoder(request: pytest.FixtureRequest) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=request.param)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not request.param).eval()


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_transformer_encoder_with_padding(
    device: torch.device, encoder: nn.TransformerEncoder, mask: torch.Tensor
) -> None:
    moved, x = copy.deepcopy(encoder).to(device), torch.randn(3, 6, 16)
    with torch.no_grad():
        for module, other in ((encoder, moved), (encoder.layers[0], moved.layers[0])):
            expected = module(x, src_key_padding_mask=mask)
            actual = other(x.to(device), src_key_padding_mask=mask.to(device))
            torch.testing.assert_close(actual.cpu(), expected)
            assert actual.stride() == expected.stride()


def test_multihead_attention_with_padding(device: torch.device) -> None:
    attention, x, mask = (
        nn.MultiheadAttention(16, 4, batch_first=True).eval(),
        torch.randn(3, 6, 16),
        MASKS["with gaps"],
    )
    moved, y = copy.deepcopy(attention).to(device), x.to(device)
    with torch.no_grad():
        expected = attention(x, x, x, key_padding_mask=mask)
        actual = moved(y, y, y, key_padding_mask=mask.to(device))
    torch.testing.assert_close([result.cpu() for result in actual], list(expected))


def test_the_encoder_counts_what_falls_back(device: torch.device) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval().to(device)
    with torch.no_grad(), torch_mydev.fallback_census() as census:
        encoder(torch.randn(3, 6, 16, device=device), src_key_padding_mask=MASKS["at the end"].to(device))
    assert census.total_calls > 0


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_nested_tensors_from_masks(device: torch.device, mask: torch.Tensor) -> None:
    x = torch.randn(3, 6, 4)
    expected = torch._nested_tensor_from_mask_left_aligned(x, ~mask)
    assert torch._nested_tensor_from_mask_left_aligned(x.to(device), ~mask.to(device)) == expected
    made = torch._nested_tensor_from_mask(x.to(device), ~mask.to(device), mask_check=False)
    torch.testing.assert_close(plain(made), plain(torch._nested_tensor_from_mask(x, ~mask, mask_check=False)))
