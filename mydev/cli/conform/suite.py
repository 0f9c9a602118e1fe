"""Runs the cases of a conformance suite: each in a process of its own, ``lib/mydev_conform``, with a time limit. A case
that crashes, hangs or ends its process has failed, and the next is tried all the same.

Nothing is loaded into this process: neither torch, nor the native part, nor a driver.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydev.cli.child import Child, run_child
from mydev.drivers import VARIABLE, DriverChoice, choose
from mydev.headers import library_dir
from mydev.wording import did_you_mean

PROGRAM = Path(library_dir()) / "mydev_conform"
_LIST_TIMEOUT = 60.0
_EXIT_CODES = {"passed": 0, "failed": 1, "skipped": 77}  # of mydev_conform for one case
_OF_EVERY_CASE = ("name", "status", "messages", "seconds")
_LAST_LINES = 5  # of what a case that came to a bad end wrote to stderr


class ConformError(Exception):
    """The suite cannot be run, or was asked for what it does not have; the message says what to do."""


@dataclass(frozen=True)
class Case:
    """A promise and its name."""

    group: str
    name: str
    promise: str
    prerequisite: bool  #: if it fails, no other case is tried


@dataclass(frozen=True)
class Result:
    """The outcome of a case."""

    case: Case
    status: str  #: passed, failed or skipped
    messages: list[str]  #: what did not hold; or the reason why it was skipped
    seconds: float
    reported: dict[str, Any] = field(default_factory=dict)  #: what else the case reports, by name
    place: str = ""  #: where a case of many parts was when its process ended badly


def list_cases(suite: str) -> list[Case]:
    """All cases, in bring-up order. Loads no driver."""
    if not PROGRAM.exists():
        raise ConformError(f"there is no {PROGRAM}; 'mydev doctor' explains the installation")
    child = run_child([str(PROGRAM), suite, "--list"], timeout=_LIST_TIMEOUT)
    if child.failure:
        raise ConformError(f"listing the suite '{suite}' {child.failure}: {child.stderr}")
    return [Case(**row) for row in child.objects]


def select(cases: Sequence[Case], patterns: Sequence[str], *, noun: str, advice: str) -> list[Case]:
    """The cases that a pattern matches, and all prerequisites; all cases without a pattern. A pattern is a part of a
    name, or, with one of * ? [, a glob for a whole one. ``noun`` and ``advice`` are for the error of a pattern that
    matches none.
    """
    for pattern in patterns:
        if not any(matches(case.name, pattern) for case in cases):
            near = did_you_mean(pattern, (case.name for case in cases), otherwise=advice, cutoff=0.4)
            raise ConformError(f"no {noun} has '{pattern}' in its name; {near}")
    return [
        case
        for case in cases
        if not patterns or case.prerequisite or any(matches(case.name, pattern) for pattern in patterns)
    ]


def matches(name: str, pattern: str) -> bool:
    """Whether the name has the pattern in it, or is of its form where it has one of * ? [."""
    if any(character in pattern for character in "*?["):
        return fnmatch.fnmatchcase(name, pattern)
    return pattern in name


def chosen_driver(asked: str | None) -> tuple[str, DriverChoice]:
    """The driver of ``asked``, or of the environment: its name for people, and what it is. Raises ConformError if it
    cannot be determined.
    """
    text = os.environ.get(VARIABLE, "") if asked is None else asked
    choice = choose(text)
    if choice.problem:
        raise ConformError(choice.problem)
    return text or (choice.device_name if choice.package else "host"), choice


def run_cases(
    suite: str, cases: Sequence[Case], *, driver: str | None, timeout: float, share: str = "0/1"
) -> Iterator[Result]:
    """Runs the cases one after the other; ``driver`` None is that of the environment. Ends with a prerequisite that
    does not hold. ``share`` I/N: the I-th of N shares of each kernel's cases.
    """
    name, choice = chosen_driver(driver)
    environment = {VARIABLE: choice.driver or name}
    for case in cases:
        begin = time.monotonic()
        command = [str(PROGRAM), suite, "--case", case.name, "--share", share, "--device", choice.device_name]
        child = run_child(command, timeout=timeout, environment=environment)
        result = _judge(case, child, time.monotonic() - begin)
        yield result
        if case.prerequisite and result.status == "failed":
            return


def _judge(case: Case, child: Child, seconds: float) -> Result:
    """The result of a case, from what its process printed and how it ended."""
    outcome: dict[str, Any] = next((found for found in child.objects if found.get("name") == case.name), {})
    status, messages = outcome.get("status", ""), list(outcome.get("messages", []))
    if status and child.exit_code == _EXIT_CODES[status]:
        reported = {name: value for name, value in outcome.items() if name not in _OF_EVERY_CASE}
        return Result(case, status, messages, seconds, reported)
    when = f"though the case had {status}" if status else "before the case was done"
    end = f"its process {child.failure or 'ended with exit code 0'}, {when}"
    last = [f"stderr: {line}" for line in child.stderr.splitlines()[-_LAST_LINES:]]
    return Result(case, "failed", [*messages, end, *last], seconds, place=child.value("at") or "")
