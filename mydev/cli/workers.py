"""Worker processes that answer one question at a time, with a time limit, and are replaced when they die or hang.

A worker is a program that reads JSON objects from its standard input, one per line, and for each prints any number of
JSON objects to its standard output, the last of which has the key ``done``. The first, before any question, says that
it is ready: ``{"done": …}``, or why it cannot be: ``{"error": …}``.

Threads: a Worker belongs to one thread; run_tasks starts a thread for each of its workers. No torch here.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Protocol, TypeVar

from mydev.cli.child import describe_end

START_LIMIT = 300.0  #: seconds that a worker may take until it is ready
_LAST_LINES = 3  #: of what a worker wrote to stderr, reported when it dies


class WorkerDied(Exception):
    """The worker's process ended in the middle of a question."""


class WorkerHung(Exception):
    """A question took longer than it may; the worker was killed."""


class CannotStart(Exception):
    """No worker can be had; says why, in one line."""


class Worker:
    """One process, started by its first question and again after each that ended it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = list(command), dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._rest = b""

    def ask(self, question: Any, limit: float) -> Iterator[dict[str, Any]]:
        """The objects of the answer, ``limit`` seconds at most. Raises WorkerDied, WorkerHung or CannotStart."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None and self._errors is not None
        before = self._errors.seek(0, os.SEEK_END)
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerDied(self._end(before)) from None
        yield from self._answer(limit, before)

    def stop(self) -> None:
        """Ends the process, if there is one."""
        if self._process is not None:
            self._kill()

    def interrupt(self) -> None:
        """Ends the process from another thread than the worker's, whose question then ends with WorkerDied."""
        process = self._process
        if process is not None:
            process.kill()

    def _start(self) -> None:
        self._rest = b""
        if self._errors is not None:
            self._errors.close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        try:
            ready = list(self._answer(START_LIMIT, 0))[-1]
        except WorkerDied as error:
            raise CannotStart(f"a process that uses the device {error}") from None
        except WorkerHung:
            raise CannotStart(f"a process that uses the device was not ready in {START_LIMIT:g} seconds") from None
        if "error" in ready:
            self._kill()
            raise CannotStart(ready["error"])

    def _answer(self, limit: float, before: int) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + limit
        while True:
            line = self._line(deadline)
            if line is None:
                self._kill()
                raise WorkerHung(f"came to no end within {limit:g} seconds (--timeout gives it more)")
            if not line:
                raise WorkerDied(self._end(before))
            value = json.loads(line)
            yield value
            if "done" in value or "error" in value:
                return

    def _line(self, deadline: float) -> bytes | None:
        """The next line; empty at the end of the output, None when time is up."""
        assert self._process is not None and self._process.stdout is not None
        output = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                return None
            read = os.read(output, 1 << 16)
            if not read:
                return b""
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self, before: int) -> str:
        """How the process ended by itself, and what it wrote to stderr last; ``before`` is where that began."""
        assert self._process is not None and self._errors is not None
        code = self._kill(grace=5)
        how = describe_end(code) or "ended with exit code 0"
        self._errors.seek(before)
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return f"{how}: {' | '.join(lines[-_LAST_LINES:])}" if lines else how

    def _kill(self, grace: float = 0) -> int:
        """Ends the process and those that it started, after ``grace`` seconds in which it may do so itself."""
        process, self._process = self._process, None
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            code = process.wait(grace)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        process.stdin.close()
        process.stdout.close()
        return code


class Stoppable(Protocol):
    """The thing that a thread works with: a worker, or several."""

    def stop(self) -> None:
        """Ends what runs, and waits for it."""

    def interrupt(self) -> None:
        """Ends what runs from another thread, whose question then ends with WorkerDied."""


W = TypeVar("W", bound=Stoppable)


def run_tasks(tasks: Sequence[Any], workers: Sequence[W], work: Callable[[W, Any], Any]) -> Iterator[Any]:
    """Yields the results of ``work`` for each task, in the order of the tasks. Each worker has a thread.

    If ``work`` raises, the error is raised here. The workers are stopped then, and also if the caller stops asking.
    """
    waiting: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    for item in enumerate(tasks):
        waiting.put(item)
    finished: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    stopped = threading.Event()

    def serve(worker: W) -> None:
        while not stopped.is_set():
            try:
                position, task = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                finished.put((position, work(worker, task)))
            except Exception as error:
                finished.put((-1, error))
                break
        worker.stop()

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield from _in_order(finished, len(tasks))
    finally:
        stopped.set()
        for worker in workers:
            worker.interrupt()
        for thread in threads:
            thread.join()


def _in_order(finished: queue.SimpleQueue[tuple[int, Any]], count: int) -> Iterator[Any]:
    early: dict[int, Any] = {}
    for position in range(count):
        while position not in early:
            found, result = finished.get()
            if found < 0:
                raise result
            early[found] = result
        yield early.pop(position)
