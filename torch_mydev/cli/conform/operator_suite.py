"""Runs operators in worker processes and gives a row for each, whatever becomes of the process. Torch-free."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydev.cli.workers import Worker, WorkerDied, WorkerHung, run_tasks
from torch_mydev.conform.operators.row import Answer, Row, Status, Task, row_of

_LISTING_LIMIT = 300.0
_PACKAGE_PARENT = Path(__file__).parents[3]
_COMMAND = (sys.executable, "-c", "from torch_mydev.conform.operators.worker import main; main()")


@dataclass(frozen=True)
class Plan:
    """The tasks to run, and the device that runs them."""

    tasks: list[Task]
    unknown: list[str]  #: patterns that no operator has
    device: str
    driver: str


class Suite:
    """The operators of the database on the device that ``environment`` chooses, by ``jobs`` worker processes.

    Raises CannotStart if no process can use the device or the database.
    """

    def __init__(self, environment: dict[str, str], jobs: int, limit: float) -> None:
        threads = max(1, len(os.sched_getaffinity(0)) // jobs)
        path = os.pathsep.join(filter(None, [str(_PACKAGE_PARENT), environment.get("PYTHONPATH", "")]))
        variables = {"OMP_NUM_THREADS": str(threads), **environment, "PYTHONPATH": path}
        self._workers = [Worker(_COMMAND, variables) for _ in range(jobs)]
        self._limit = limit

    def plan(self, patterns: Sequence[str], dtypes: Sequence[str]) -> Plan:
        """Plans the operators that match the patterns (all without any), in the dtypes (the usual one without any)."""
        question = {"patterns": list(patterns), "dtypes": list(dtypes)}
        listed = list(self._workers[0].ask(question, _LISTING_LIMIT))[-1]
        device = listed["device"]
        return Plan([Task(**task) for task in listed["tasks"]], listed["unknown"], device["name"], device["driver"])

    def run(self, plan: Plan) -> Iterator[Row]:
        """The rows, in the order of the plan; each as soon as it and those before it are known."""
        yield from run_tasks(plan.tasks, self._workers[: max(1, len(plan.tasks))], self._row)

    def stop(self) -> None:
        """Ends the workers."""
        for worker in self._workers:
            worker.stop()

    def _row(self, worker: Worker, task: Task) -> Row:
        begin = time.monotonic()
        answers: dict[str, Answer] = {}
        try:
            for value in worker.ask(vars(task), self._limit):
                answers.update({key: _answer(fields) for key, fields in value.items() if key != "done"})
        except (WorkerDied, WorkerHung) as error:
            status: Status = "crashed" if isinstance(error, WorkerDied) else "timed out"
            answers["backward" if "forward" in answers else "forward"] = Answer(status, f"the process {error}")
        return row_of(task, answers, time.monotonic() - begin)


def _answer(fields: dict[str, Any]) -> Answer:
    return Answer(
        fields["status"], fields["detail"], tuple(fields["fallbacks"]), fields["declined"], tuple(fields["ways"])
    )
