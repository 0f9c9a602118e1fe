"""A fixed part of the questions of breadth.py; ``make conformance`` asks them all."""

from __future__ import annotations

import fnmatch
import warnings

import pytest
import torch

from . import breadth, ledger


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        options = [metafunc.config.getoption(f"conformance_{name}") for name in ("share", "remainder")]
        cases = breadth.cases(*options)
        metafunc.parametrize("case", cases, ids=[case.name for case in cases])


def test_agrees_with_cpu(case: breadth.Case, request: pytest.FixtureRequest, device: torch.device) -> None:
    reasons = [reason for pattern, reason in ledger.BREADTH.items() if fnmatch.fnmatchcase(case.name, pattern)]
    samples = 12 if request.config.getoption("conformance_share") == 1 else 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            breadth.check(case, samples)
        except AssertionError:
            if not reasons:
                raise
            pytest.xfail(reasons[0])
    assert not reasons, "the device agrees with the CPU: narrow the pattern in ledger.py"


@pytest.mark.parametrize("question", breadth.QUESTIONS)
def test_each_question_finds_answers_to_compare(question: str) -> None:
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("add", "nn.functional.conv2d", "logical_and", "cumsum"):
            compared += sum(
                breadth.check(case, 2)
                for case in breadth.cases(1)
                if case.question == question and case.op.name == name
            )
    assert compared > 0


def test_ledger_names_cases_that_exist() -> None:
    names = [case.name for case in breadth.cases(1)]
    assert all(fnmatch.filter(names, pattern) for pattern in [*ledger.BREADTH, *ledger.ILL_CONDITIONED])
