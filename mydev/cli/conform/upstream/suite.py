"""Runs upstream's tests file by file in worker processes, and gives a row for each, whatever becomes of the process.

Each file has processes of its own: one for the device, and one for the CPU if a test fails on the device. A process
that crashes or hangs costs the test that it was at, and is replaced for the next. Each thread has a file of its own;
one that finds none left helps with the longest that is under way. No torch here, and no JAX.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mydev
from mydev.cli.arguments import of_share
from mydev.cli.conform.suite import matches
from mydev.cli.conform.upstream.ledger import FAILURES, Row
from mydev.cli.workers import CannotStart, Worker, WorkerDied, WorkerHung, run_tasks

LOADING = "(loading the file)"  #: the name of the row of a file that cannot be loaded, or has no tests
_LISTING_LIMIT = 60.0  # seconds, once the file is loaded
_WORTH_HELPING = 20  # tests that are left, for which another process may load a file
_DEVICE, _CPU = "device", "cpu"


@dataclass(frozen=True)
class Sides:
    """How to start a process of tests, on the device and on the CPU."""

    program: Sequence[str]
    device: Mapping[str, str]  #: environment variables
    cpu: Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """The tests that are asked for."""

    patterns: Sequence[str]
    share: str  #: of each file's tests

    def of(self, tests: Sequence[str]) -> list[str]:
        """The tests of a file that are asked for."""
        fitting = [name for name in tests if not self.patterns or any(matches(name, each) for each in self.patterns)]
        return of_share(fitting, self.share)


@dataclass
class _File:
    """A file under way. The suite's lock guards it."""

    name: str
    listed: bool = False
    waiting: deque[str] = field(default_factory=deque)
    running: int = 0
    rows: dict[str, Row] = field(default_factory=dict)


class _Runner:
    """The processes that a thread has for the file that it is at."""

    def __init__(self, start: Callable[[str, str], Worker]) -> None:
        self._start = start
        self._file = ""
        self._workers: dict[str, Worker] = {}
        self.stopped = False

    def ask(self, file: str, side: str, question: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """The last object of the answer. Raises as Worker.ask does."""
        if self.stopped:
            raise WorkerDied("was stopped")
        if file != self._file:
            self.stop()
            self._file = file
        if side not in self._workers:
            self._workers[side] = self._start(file, side)
        return list(self._workers[side].ask(question, limit))[-1]

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        self._workers = {}

    def interrupt(self) -> None:
        self.stopped = True
        for worker in list(self._workers.values()):
            worker.interrupt()


class Suite:
    """The tests of a folder, on the device and on the CPU, by ``jobs`` threads; ``limit`` seconds for each test."""

    def __init__(self, folder: Path, sides: Sides, jobs: int, limit: float) -> None:
        threads = max(1, len(os.sched_getaffinity(0)) // jobs)
        package = str(Path(mydev.__file__).parents[1])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
        self._environment = {"OMP_NUM_THREADS": str(threads), **os.environ, "PYTHONPATH": path}
        self._folder, self._sides, self._jobs, self._limit = folder, sides, jobs, limit
        self._changed = threading.Condition()
        self._files: list[_File] = []

    def about(self) -> dict[str, Any]:
        """The framework's version and the device. Raises CannotStart if no process can use them."""
        runner = _Runner(self._worker)
        try:
            answer = runner.ask("", _DEVICE, {"about": True}, _LISTING_LIMIT)
        except (WorkerDied, WorkerHung) as error:
            raise CannotStart(f"a process that uses the device {error}") from None
        finally:
            runner.stop()
        return {name: value for name, value in answer.items() if name != "done"}

    def run(self, files: Sequence[str], choice: Choice) -> Iterator[tuple[str, dict[str, Row]]]:
        """The rows of each file, in the order of the files; each as soon as it and those before it are done."""
        self._files = [_File(name) for name in files]
        helpers = [None] * (self._jobs - 1)
        runners = [_Runner(self._worker) for _ in range(self._jobs)]

        def work(runner: _Runner, file: _File | None) -> _File | None:
            if file is None:
                self._help(runner)
            else:
                self._run(runner, file, choice)
            return file

        for file in run_tasks([*self._files, *helpers], runners, work):
            if file is not None:
                yield file.name, file.rows

    def _worker(self, file: str, side: str) -> Worker:
        changes = self._sides.device if side == _DEVICE else self._sides.cpu
        return Worker([*self._sides.program, str(self._folder), file], {**self._environment, **changes})

    # --- one file, by one thread and its helpers ----------------------------------------------------------------------

    def _run(self, runner: _Runner, file: _File, choice: Choice) -> None:
        tests: list[str] = []
        try:
            tests = choice.of(self._list(runner, file))
        finally:
            with self._changed:
                file.waiting.extend(tests)
                file.listed = True
                self._changed.notify_all()
        self._work_off(runner, file)
        with self._changed:
            self._changed.wait_for(lambda: not file.running)
        file.rows = {test: file.rows[test] for test in (LOADING, *tests) if test in file.rows}

    def _help(self, runner: _Runner) -> None:
        """Works at the longest of the files under way until none is worth it."""
        while not runner.stopped:
            with self._changed:
                self._changed.wait_for(lambda: all(file.listed for file in self._files))
                longest = max(self._files, key=lambda file: len(file.waiting))
            if len(longest.waiting) < _WORTH_HELPING:
                return
            self._work_off(runner, longest)

    def _work_off(self, runner: _Runner, file: _File) -> None:
        while not runner.stopped:
            with self._changed:
                if not file.waiting:
                    return
                test = file.waiting.popleft()
                file.running += 1
            row = None
            try:
                row = self._row(runner, file.name, test)
            finally:
                with self._changed:
                    file.running -= 1
                    if row is not None:
                        file.rows[test] = row
                    self._changed.notify_all()

    def _list(self, runner: _Runner, file: _File) -> list[str]:
        """The tests of a file; where it cannot be loaded or has none, a row says why."""
        row = None
        tests: list[str] = []
        try:
            answer = runner.ask(file.name, _DEVICE, {"list": True}, _LISTING_LIMIT)
            tests = answer["tests"]
            if answer["reason"]:
                row = Row("skipped", answer["reason"])
        except (CannotStart, WorkerDied, WorkerHung) as error:
            row = Row("failed", str(error))
            if not runner.stopped:
                row = self._scored(row, self._ask(runner, file.name, _CPU, {"list": True}, _LISTING_LIMIT))
        if row is not None:
            file.rows[LOADING] = row
        return tests

    def _row(self, runner: _Runner, file: str, test: str) -> Row | None:
        """The outcome of a test; None where the run was stopped meanwhile."""
        row = self._ask(runner, file, _DEVICE, {"test": test}, self._limit)
        if row.status in FAILURES and not runner.stopped:
            row = self._scored(row, self._ask(runner, file, _CPU, {"test": test}, self._limit))
        return None if runner.stopped else row

    def _ask(self, runner: _Runner, file: str, side: str, question: Mapping[str, Any], limit: float) -> Row:
        try:
            answer = runner.ask(file, side, question, limit)
        except WorkerHung as error:
            return Row("timed out", f"it {error}", seconds=limit)
        except WorkerDied as error:
            return Row("crashed", f"the process {error}")
        except CannotStart as error:
            return Row("failed", str(error))
        return Row(answer.get("status", "passed"), answer.get("detail", ""), seconds=answer["done"])

    @staticmethod
    def _scored(row: Row, cpu: Row) -> Row:
        """The row of a failure, which is not the device's where the CPU fails as well."""
        if cpu.status not in FAILURES:
            return Row(row.status, row.detail, cpu.status, row.seconds)
        return Row("failed on the CPU too", row.detail, cpu.status, row.seconds)
