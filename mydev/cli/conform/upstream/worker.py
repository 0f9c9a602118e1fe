"""A worker process that runs upstream's tests: it loads one file, then runs the tests that it is asked for, one by one.

The questions come as mydev/cli/workers.py says. ``{"about": true}`` is answered with what the tests run on; ``{"list":
true}`` with the names of the file's tests, or with the reason why it has none; ``{"test": name}`` with what came of it.

The output of tests goes to stderr. The fixtures of a class or module stay until a test of another one comes, as
unittest has it; what goes wrong when they are taken down is not reported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

_LONGEST_DETAIL = 400
_WORSE = ("passed", "skipped", "failed")  # the later counts where a test's parts end differently
_TEARS_DOWN = "tearDown"  # what unittest calls the fixture whose error is no test's


def _done_already() -> None:
    """For a framework whose tests end with their work."""


@dataclass(frozen=True)
class Framework:
    """The things that a worker does in its own way for each framework."""

    about: Callable[[], dict[str, str]]  #: loads it and uses the device; raises what says why not
    load: Callable[[ModuleType], dict[str, tuple[type[unittest.TestCase], str]]]  #: classes and methods by name
    #: waits for a test's work on the device, and raises what failed there
    synchronize: Callable[[], None] = _done_already


def serve(framework: Framework) -> None:
    """Answers until there is no more question. The program's arguments are the folder of tests, and a file of it or
    ""."""
    sys.path.pop(0)  # the program's own folder
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers)

    folder, file = Path(sys.argv[1]), sys.argv[2]
    tests: dict[str, tuple[type[unittest.TestCase], str]] = {}
    reason = ""
    try:
        about = framework.about()
        if file:
            tests = framework.load(_import(folder, file))
    except unittest.SkipTest as error:
        reason = str(error)
    except SystemExit as error:
        reason = f"the file ends the process while it is loaded: {error}"
    except Exception as error:
        answer(error=_text(error))
        return
    answer(done=True)
    outcome = _Outcome()
    for line in sys.stdin:
        question = json.loads(line)
        if "about" in question:
            answer(done=0.0, **about)
        elif "list" in question:
            answer(done=0.0, tests=list(tests), reason=reason)
        else:
            answer(**_run(framework, tests.get(question["test"]), outcome))
    outcome.take_down()


def _import(folder: Path, file: str) -> ModuleType:
    """The module of a file, whose tests find each other and their data as where upstream starts them."""
    path = folder / file
    sys.argv[:] = [str(path)]
    sys.path[:0] = [str(path.parent), str(folder)]
    os.chdir(folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


class _Outcome(unittest.TestResult):
    """The outcome of one test at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.status, self.detail = "", ""
        self._fixture = ("failed", "unittest did not run it")  # what came of the last fixture that let no test run
        self._testRunEntered = True  # else unittest takes the fixtures down after each test

    def ask(self, case: unittest.TestCase) -> None:
        """Runs a test; ``status`` and ``detail`` tell what came of it."""
        self.status, self.detail, self.shouldStop = "", "", False
        unittest.TestSuite([case]).run(self)
        if not self.status:  # the fixture of its class or module has failed, for an earlier test
            self.status, self.detail = self._fixture

    def take_down(self) -> None:
        """Takes the last fixtures down."""
        self._testRunEntered = False
        unittest.TestSuite().run(self)

    def note(self, test: object, status: str, detail: str = "") -> None:
        """Notes what came of the test or a part of it, or of a fixture, which is no TestCase."""
        if not isinstance(test, unittest.TestCase):
            if str(test).startswith(_TEARS_DOWN):
                return
            self._fixture = (status, detail)
        if not self.status or _WORSE.index(status) > _WORSE.index(self.status):
            self.status, self.detail = status, detail

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "passed")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed", _text(err[1]))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed", _text(err[1]))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.note(test, "failed", _text(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.note(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "passed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "failed", "it passed, and is marked as one that fails")


def _run(framework: Framework, found: tuple[type[unittest.TestCase], str] | None, outcome: _Outcome) -> dict[str, Any]:
    begin = time.perf_counter()
    if found is None:
        return {"done": 0.0, "status": "absent", "detail": ""}
    kind, method = found
    case = kind(method)
    outcome.ask(case)
    try:
        framework.synchronize()
    except Exception as error:
        outcome.note(case, "failed", _text(error))
    return {"done": time.perf_counter() - begin, "status": outcome.status, "detail": outcome.detail}


def _text(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"there is no Python module '{error.name}'; install the package that has it"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {'; '.join(lines)}"[:_LONGEST_DETAIL]
