"""torch.nn.attention.flex_attention on the device: eager and compiled, score modifications, block masks, gradients."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

LENGTH = 160
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def nothing(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (query < 8) & (key > LENGTH)  # no key for the first rows


def window(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (query - key).abs() < 16


def by_distance(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score + (key - query) * 0.01 * (head + 1)


def capped(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return 2 * torch.tanh(score / 2)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "score": {"score_mod": by_distance},
    "mask": {"mask": causal},
    "both": {"score_mod": capped, "mask": window},
    "masked rows": {"mask": nothing},
    "grouped": {"score_mod": by_distance, "mask": causal, "kv_heads": 2, "enable_gqa": True},
}


def operands(device: Any, kv_heads: int = 4, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, heads, LENGTH, 16, generator=generator).to(device, dtype) for heads in (4, kv_heads, kv_heads)
    ]


def attention(call: Callable[..., Any], inputs: list[Tensor], mask: Any = None, **options: Any) -> Any:
    options.pop("kv_heads", None)
    device = inputs[0].device
    block_mask = None if mask is None else create_block_mask(mask, 2, 4, LENGTH, LENGTH, device=str(device))
    return call(*inputs, block_mask=block_mask, **options)


def by_hand(inputs: list[Tensor], score_mod: Any = None, mask: Any = None, **options: Any) -> Tensor:
    """Computes what the operator means, in double precision and with ordinary operators."""
    query, key, value = (tensor.double() for tensor in inputs)
    key, value = (tensor.repeat_interleave(query.shape[1] // tensor.shape[1], 1) for tensor in (key, value))
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    places = torch.meshgrid(*(torch.arange(size) for size in scores.shape), indexing="ij")
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if mask is not None:
        scores = scores.masked_fill(~mask(*places), -torch.inf)
    return scores.softmax(-1).nan_to_num() @ value


#: Inductor's code takes a compiler of C++ ten seconds or more for each case.
BACKENDS = [None, "mydev_program", pytest.param("inductor", marks=pytest.mark.program)]


@pytest.fixture(params=BACKENDS, ids=["eager", "programs", "inductor"])
def call(request: pytest.FixtureRequest) -> Any:
    if request.param is None:
        return flex_attention
    request.getfixturevalue("fresh_compiler")
    return torch.compile(flex_attention, fullgraph=True, backend=request.param)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_result_is_that_of_its_definition(call: Any, device: torch.device, case: dict[str, Any]) -> None:
    kv_heads = case.get("kv_heads", 4)
    result = attention(call, operands(device, kv_heads), **case)
    expected = by_hand(operands("cpu", kv_heads), **case)
    torch.testing.assert_close(result.cpu(), expected.float())


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
def test_inductor_compiles_it(device: torch.device) -> None:
    result = attention(torch.compile(flex_attention, fullgraph=True), operands(device), score_mod=by_distance)
    torch.testing.assert_close(result.cpu(), by_hand(operands("cpu"), score_mod=by_distance).float())


@pytest.mark.parametrize("name", ["both", "masked rows", "grouped"])
def test_gradients_are_those_of_its_definition(call: Any, device: torch.device, name: str) -> None:
    case = CASES[name]
    kv_heads = case.get("kv_heads", 4)
    inputs = [tensor.requires_grad_() for tensor in operands(device, kv_heads)]
    attention(call, inputs, **case).square().sum().backward()
    expected = [tensor.requires_grad_() for tensor in operands("cpu", kv_heads)]
    by_hand(expected, **case).square().sum().backward()
    for tensor, reference in zip(inputs, expected, strict=True):
        assert tensor.grad is not None
        torch.testing.assert_close(tensor.grad.cpu(), reference.grad)


def test_what_a_modification_captures_has_a_gradient(call: Any, device: torch.device) -> None:
    def run(where: Any, compute: Callable[..., Tensor]) -> Tensor:
        bias = torch.linspace(-1, 1, LENGTH).to(where).requires_grad_()

        def biased(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return score + bias[key]

        compute(operands(where), score_mod=biased).square().sum().backward()
        assert bias.grad is not None
        return bias.grad.cpu()

    result = run(device, lambda inputs, **options: attention(call, inputs, **options))
    torch.testing.assert_close(result, run("cpu", by_hand))


def test_statistics_are_given(call: Any, device: torch.device) -> None:
    _, aux = attention(call, operands(device), mask=causal, return_aux=AuxRequest(lse=True, max_scores=True))
    query, key, _ = operands("cpu")
    scores = (query @ key.transpose(-2, -1) / 4).masked_fill(~torch.ones(LENGTH, LENGTH).tril().bool(), -torch.inf)
    torch.testing.assert_close(aux.lse.cpu(), scores.logsumexp(-1))
    torch.testing.assert_close(aux.max_scores.cpu(), scores.amax(-1))


def test_autocast_casts_the_operands(call: Any, device: torch.device) -> None:
    with torch.autocast(device.type, torch.bfloat16):
        result = attention(call, operands(device), mask=causal)
    assert result.dtype == torch.bfloat16
    expected = attention(call, operands(device, dtype=torch.bfloat16), mask=causal)
    torch.testing.assert_close(result, expected)


@pytest.mark.any_driver
def test_switched_off_the_device_is_refused(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = (
        "import torch\nfrom torch.nn.attention.flex_attention import flex_attention\n"
        "flex_attention(*[torch.ones(1, 1, 16, 16, device='mydev')] * 3)"
    )
    result = run_python(code, fresh=True, MYDEV_INTEGRATIONS="off")
    assert "Found input tensors on mydev device" in result.stderr
