"""One line of progress instead of a letter for each test: a pytest plugin, for ``--bar``.

On a terminal the line is a bar that is drawn anew; elsewhere there is a line for each tenth. Failures are reported at
once.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

WIDTH = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bar", action="store_true", help="show progress as one line")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("bar") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ProgressBar(), "progress-bar")


class ProgressBar:
    def __init__(self) -> None:
        self.total = self.done = self.failed = self.tenth = 0
        self.begin = time.monotonic()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.total = max(self.total, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.total = max(self.total, len(ids))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """The same outcomes as pytest's, without a letter."""
        if report.when != "call" and not report.failed and not (report.when == "setup" and report.skipped):
            return "", "", ""
        if hasattr(report, "wasxfail"):
            return ("xfailed" if report.skipped else "xpassed"), "", ""
        outcome = "error" if report.when != "call" and report.failed else report.outcome
        return outcome, "", outcome.upper()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed += 1
            self._line(f"failed: {report.nodeid}\n")
        if report.when == "teardown":
            self.done += 1
            self._draw()

    def _draw(self) -> None:
        share = self.done / max(self.total, 1)
        left = (time.monotonic() - self.begin) * (1 - share) / max(share, 1e-9)
        counts = f"{self.done} of {self.total} tests, {self.failed} failed, {left / 60:.1f} min left"
        if sys.stdout.isatty():
            filled = round(WIDTH * share)
            self._line(f"[{'#' * filled}{'.' * (WIDTH - filled)}] {counts}")
        elif int(10 * share) > self.tenth:
            self.tenth = int(10 * share)
            print(f"{10 * self.tenth:3}%  {counts}", flush=True)
        if self.done == self.total and sys.stdout.isatty():
            print()

    def _line(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if sys.stdout.isatty() else text, end="", flush=True)
