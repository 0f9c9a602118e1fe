"""Runs one OpInfo under torch.compile on the device, and compares results and gradients with the CPU in eager mode.

One sample per operator, for compiling takes seconds. Random operators are compared with the device's own eager mode,
whose numbers programs draw, and Inductor's code under its option fallback_random. (The database wraps some of them in a
context that restores the random state where Dynamo may not trace: it is kept out of set_rng_state.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from torch_mydev.conform.operators import harness, ledger

mydev = torch.mydev


def _outcome(function: Callable[..., Any], sample: SampleInput) -> list[Any]:
    """Results, then the gradients of what wants any."""
    torch.manual_seed(0)
    results = harness.run(function, sample)
    return [*results, *(harness.gradients(results, sample) or [])]


def check(op: OpInfo, **compile_options: Any) -> None:
    """Compares the first sample of the operator, compiled alone, with gradients where it has any.

    ``compile_options``: of ``torch.compile``.
    """
    case = harness.case_name(op)
    differentiable = harness.has_gradients(op) and case not in ledger.BACKWARD_RAISES
    sample = next(harness.samples(op, requires_grad=differentiable))
    random = harness.draws_random_numbers(op, sample)
    expected = _outcome(op, harness.on_device(sample) if random else sample)

    torch._dynamo.reset()
    compiled = torch.compile(lambda *args, **kwargs: op.op(*args, **kwargs), **compile_options)
    with patch.object(mydev, "set_rng_state", torch.compiler.disable(mydev.set_rng_state)):
        actual = _outcome(compiled, harness.on_device(sample))
    assert len(actual) == len(expected), f"{len(actual)} results and gradients, in eager mode {len(expected)}"
    values = case not in ledger.UNDEFINED_CONTENTS
    for a, e in zip(actual, expected, strict=True):
        harness.compare_result(op, a, e.cpu() if isinstance(e, torch.Tensor) else e, values=values)
