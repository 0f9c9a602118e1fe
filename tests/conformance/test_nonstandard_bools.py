"""Booleans whose bytes are neither 0 nor 1, as of a uint8 tensor viewed as bool: true wherever an operator reads one.

The operators are those of PyTorch's own database that take a bool operand. The expected values are the CPU's for the
same operands with bytes 0 and 1.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves

from torch_mydev.conform.operators import harness
from torch_mydev.conform.operators.ledger import FORWARD_RAISES, RANDOM, UNDEFINED_CONTENTS

from . import ledger

#: Samples per operator and dtype: those with a bool operand among the first.
MAX_SAMPLES = 6

#: Operators that give bool tensors and take none, or whose samples are views of more memory than they show.
WITHOUT_OPERANDS = frozenset(
    {
        "as_strided.partial_views", "eye", "full", "nn.functional.unfold", "ones", "scalar_tensor",
        "torch.ops.aten._safe_softmax.default", "zeros",
    }
)  # fmt: skip

#: Operators that leave the order of equal elements to the device, unless they are asked for a stable one.
STABLE_ON_REQUEST = frozenset({"argsort", "sort"})


def odd_bytes(value: Any) -> Any:
    """A bool tensor with true elements of 2 to 254; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.dtype != torch.bool or value.layout != torch.strided:
        return value
    generator = torch.Generator().manual_seed(5)
    true = torch.randint(2, 255, value.shape, dtype=torch.uint8, generator=generator)
    return torch.where(value, true, torch.zeros((), dtype=torch.uint8)).view(torch.bool)


def fresh(value: Any) -> Any:
    """A copy, for operators that write to their operands."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def takes_bool(sample: SampleInput) -> bool:
    leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bool and leaf.numel() > 0 for leaf in leaves)


def bool_samples(op: OpInfo) -> list[SampleInput]:
    """Samples with a bool operand, whose results the operator's arguments decide."""
    found: list[SampleInput] = []
    for dtype in {torch.bool, torch.float32} & op.supported_dtypes("cpu"):
        samples = itertools.islice(harness.sample_inputs(op, dtype, requires_grad=False), MAX_SAMPLES)
        found += [s for s in samples if takes_bool(s) and not harness.draws_random_numbers(op, s)]
    if op.name in STABLE_ON_REQUEST:
        for sample in found:
            arguments = dict(zip(("dim", "descending"), sample.args, strict=False))
            sample.args, sample.kwargs = (), {**arguments, **sample.kwargs, "stable": True}
    return found


LEFT_OUT = WITHOUT_OPERANDS | RANDOM | UNDEFINED_CONTENTS | ledger.REPLACED | set(FORWARD_RAISES)
OPERATORS = [
    op for op in harness.OPERATORS if torch.bool in op.supported_dtypes("cpu") and harness.case_name(op) not in LEFT_OUT
]


@pytest.mark.parametrize("op", OPERATORS, ids=harness.case_name)
def test_any_byte_but_zero_is_true(op: OpInfo) -> None:
    samples = bool_samples(op)
    assert samples, "no sample has a bool operand"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples:
            odd = harness.on_device(sample.transform(odd_bytes))
            expected = harness.run(op, sample.transform(fresh))
            for a, e in zip(harness.run(op, odd), expected, strict=True):
                harness.compare_result(op, a, e, values=True)


@pytest.mark.parametrize("count", [6, 50])
@pytest.mark.parametrize(
    "function",
    [
        lambda t: t.clone(),
        lambda t: t.t().contiguous(),
        lambda t: t[:, ::2].contiguous(),
        lambda t: t.to(torch.uint8),
        lambda t: t.float(),
        lambda t: t.gather(1, torch.zeros(t.shape, dtype=torch.long, device=t.device)),
        lambda t: t.index_select(0, torch.arange(2, device=t.device)),
        lambda t: t & t,
        lambda t: t == t.logical_not(),
        lambda t: torch.maximum(t, t),
    ],
    ids=["clone", "transpose", "slice", "uint8", "float", "gather", "index_select", "and", "equal", "maximum"],
)
def test_results_hold_the_bytes_of_the_cpu(
    device: torch.device, function: Callable[[torch.Tensor], torch.Tensor], count: int
) -> None:
    odd = odd_bytes(torch.arange(4 * count).reshape(4, count) % 3 > 0)
    expected, actual = function(odd), function(odd.view(torch.uint8).to(device).view(torch.bool))
    assert torch.equal(actual.view(torch.uint8).cpu(), expected.view(torch.uint8))


def test_gradient_of_dropout_reads_any_mask(device: torch.device) -> None:
    gradient, mask = torch.randn(7, 5), odd_bytes(torch.arange(35).reshape(7, 5) % 2 > 0)
    backward = torch.ops.aten.native_dropout_backward
    moved = mask.view(torch.uint8).to(device).view(torch.bool)
    torch.testing.assert_close(backward(gradient.to(device), moved, 2.0).cpu(), backward(gradient, mask, 2.0))
