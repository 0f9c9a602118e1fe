"""No skip stays unseen: a pytest plugin that counts skips by reason, and with ``--strict-skips`` allows only some.

tests/allowed_skips.txt has the reasons that are allowed. Another one says that something is not built, not installed or
cannot be had; with ``--strict-skips`` the test fails by it.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Generator
from functools import cache
from typing import Any

import pytest

from .checkout import TESTS

LIST = TESTS / "allowed_skips.txt"


@cache
def allowed() -> dict[str, str]:
    """Patterns of reasons, and why each is allowed."""
    lines = [line for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    pairs = (line.split(" | ") for line in lines)
    return {pattern.strip(): why.strip() for pattern, why in pairs}


def is_allowed(reason: str) -> bool:
    return any(fnmatch.fnmatchcase(reason, pattern) for pattern in allowed())


def _reason(report: Any) -> str:
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def _judged(report: Any, config: pytest.Config) -> Any:
    if config.getoption("strict_skips") and report.skipped and not hasattr(report, "wasxfail"):
        reason = _reason(report)
        if not is_allowed(reason):
            report.outcome = "failed"
            report.longrepr = f"skipped: {reason} (a reason that {LIST.name} does not have)"
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips", action="store_true", help=f"a skip for a reason that tests/{LIST.name} does not have fails"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    return _judged((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    return _judged((yield), collector.config)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Why tests were skipped or failed as expected. How many passed is in pytest's own last line."""
    stats = terminalreporter.stats
    lines = Counter(f"skipped: {_reason(report)}" for report in stats.get("skipped", []))
    lines += Counter(f"failed as expected: {report.wasxfail}" for report in stats.get("xfailed", []))
    for line, count in lines.most_common():
        terminalreporter.line(f"{count:5} {line}")
