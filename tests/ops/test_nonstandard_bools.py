"""Booleans whose bytes are neither 0 nor 1, as of a uint8 tensor viewed as bool: true wherever an operator reads one.

The operators are those of PyTorch's own database that take a bool operand. The expected values are the CPU's for the
same operands with bytes 0 and 1.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves

from conformance import harness, ledger

#: Samples per operator and dtype: those with a bool operand among the first.
MAX_SAMPLES = 20


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
    if harness.case_name(op) in ledger.RANDOM | ledger.UNDEFINED_CONTENTS | set(ledger.FORWARD_RAISES):
        return found
    for dtype in {torch.bool, torch.float32} & op.supported_dtypes("cpu"):
        samples = itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), MAX_SAMPLES)
        found += [s for s in samples if takes_bool(s) and not harness.draws_random_numbers(op, s)]
    return found


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
                harness.compare(a, e, values=True, tolerance=harness.tolerance(op))
