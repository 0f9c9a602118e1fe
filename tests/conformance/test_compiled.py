"""Operators of PyTorch's database under torch.compile, each alone: a seeded choice, of which --compiled-operators=N
takes the first N (`make test-compile-cold` takes all)."""

from __future__ import annotations

import random
import warnings

import pytest
from torch.testing._internal.opinfo.core import OpInfo

from torch_mydev.conform.operators import harness
from torch_mydev.conform.operators.ledger import FORWARD_RAISES

from . import compiled, ledger

OPERATORS = [op for op in harness.OPERATORS if harness.case_name(op) not in FORWARD_RAISES]
random.Random(0).shuffle(OPERATORS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "op" in metafunc.fixturenames:
        count = metafunc.config.getoption("compiled_operators")
        metafunc.parametrize("op", OPERATORS[:count], ids=harness.case_name)


def test_compiled_agrees_with_cpu(op: OpInfo) -> None:
    case = harness.case_name(op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case not in ledger.COMPILED_RAISES:
            compiled.check(op)
            return
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            compiled.check(op)


def test_ledger_names_operators_that_exist() -> None:
    assert set(ledger.COMPILED_RAISES) <= {harness.case_name(op) for op in OPERATORS}


def test_at_least_99_percent_of_operators_compile() -> None:
    assert len(ledger.COMPILED_RAISES) <= 0.01 * len(OPERATORS)
