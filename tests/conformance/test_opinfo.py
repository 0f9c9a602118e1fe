"""Every operator of PyTorch's own operator database: the device's answer against the CPU's, forward and backward."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

from torch_mydev.conform.operators import harness, ledger

CASES = [pytest.param(op, id=harness.case_name(op)) for op in harness.OPERATORS]
GRADIENT_CASES = [pytest.param(op, id=harness.case_name(op)) for op in harness.OPERATORS if harness.has_gradients(op)]


def _check(case: str, known: dict[str, str], run: Callable[[], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case not in known:
            run()
            return
        try:
            run()
        except (RuntimeError, NotImplementedError, TypeError):
            return
        pytest.fail(f"{case} passes now; remove it from the ledger", pytrace=False)


@pytest.mark.parametrize("op", CASES)
def test_forward_agrees_with_cpu(op: OpInfo) -> None:
    case = harness.case_name(op)
    _check(case, ledger.FORWARD_RAISES, lambda: harness.check_forward(op))


@pytest.mark.parametrize("op", GRADIENT_CASES)
def test_backward_agrees_with_cpu(op: OpInfo) -> None:
    case = harness.case_name(op)
    _check(case, ledger.BACKWARD_RAISES | ledger.FORWARD_RAISES, lambda: harness.check_backward(op))


def test_ledger_names_operators_that_exist() -> None:
    known = {harness.case_name(op) for op in harness.OPERATORS}
    assert set(ledger.FORWARD_RAISES) | set(ledger.BACKWARD_RAISES) | ledger.UNDEFINED_CONTENTS | ledger.RANDOM <= known
    assert set(ledger.DROPOUT_ARGUMENT) <= known


def test_at_least_99_percent_of_operators_agree() -> None:
    assert len(ledger.FORWARD_RAISES) <= 0.01 * len(CASES)
    assert len(ledger.FORWARD_RAISES | ledger.BACKWARD_RAISES) <= 0.01 * len(CASES)


def test_harness_tells_a_wrong_answer() -> None:
    op = next(op for op in op_db if op.name == "add")
    with pytest.raises(AssertionError):
        harness.compare(torch.tensor([1.0]), torch.tensor([2.0]), values=True)
    harness.check_forward(op)
    nothing = mock.patch.object(harness, "samples", return_value=[])
    with pytest.raises(AssertionError, match="nothing was compared"), nothing:
        harness.check_forward(op)
