"""Operators of PyTorch's database under torch.compile, each alone. They are in a seeded order, of which
--compiled-operators=N takes the first N. Kernels of the driver's compiler are tried with the first quarter of these,
and programs, which take a tenth of the time, with the first 4 N. `make test-compile-cold` tries all."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
from torch.testing._internal.opinfo.core import OpInfo

from torch_mydev.conform.operators import harness
from torch_mydev.conform.operators.ledger import FORWARD_RAISES

from . import compiled, ledger

OPERATORS = [op for op in harness.OPERATORS if harness.case_name(op) not in FORWARD_RAISES]
random.Random(0).shuffle(OPERATORS)

#: The other ways to compile get so many operators for each one that Inductor compiles.
SHARES = {"programs": 4, "kernels": 0.25}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "op" in metafunc.fixturenames:
        count = metafunc.config.getoption("compiled_operators")
        share = next((share for way, share in SHARES.items() if way in metafunc.function.__name__), 1)
        metafunc.parametrize("op", OPERATORS[: int(count * share)], ids=harness.case_name)


def check(op: OpInfo, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if harness.case_name(op) not in ledger.COMPILED_RAISES:
            compiled.check(op, **options)
            return
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            compiled.check(op, **options)


def test_compiled_agrees_with_cpu(op: OpInfo) -> None:
    check(op, options={"fallback_random": True})


def test_programs_agree_with_cpu(op: OpInfo) -> None:
    check(op, backend="mydev_program")


def test_kernels_agree_with_cpu(op: OpInfo) -> None:
    check(op, backend="mydev_kernels", options={"fallback_random": True})


def test_ledger_names_operators_that_exist() -> None:
    assert set(ledger.COMPILED_RAISES) <= {harness.case_name(op) for op in OPERATORS}


def test_at_least_99_percent_of_operators_compile() -> None:
    assert len(ledger.COMPILED_RAISES) <= 0.01 * len(OPERATORS)
