"""``mydev conform operators``: what it says of operators, and of processes that die or hang in the middle of one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mydev.cli.workers import CannotStart, Worker, WorkerDied, WorkerHung, run_tasks
from support.checkout import DRIVERS
from support.conform_command import Cli, conform_command
from torch_mydev.cli.conform.operator_suite import Plan, Suite
from torch_mydev.conform.operators.row import Task

pytestmark = pytest.mark.any_driver

WRONG = f"{DRIVERS}/wrong_driver.so"


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "operators", "--jobs", "1")


def rows_of(out: str) -> dict[str, dict[str, Any]]:
    return {row["operator"]: row for row in json.loads(out)["operators"]}


# --- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_operators_of_the_host_pass_and_are_told_apart(conform: Cli) -> None:
    code, out, err = conform("--driver", "host", "add", "median", "tensor_sp*", "--json")
    rows = rows_of(out)
    assert (code, err) == (0, "")
    assert rows["add"]["status"] == rows["median"]["status"] == "passed"
    assert rows["tensor_split"]["status"] == "skipped"
    assert "on the CPU, whatever the accelerator" in rows["tensor_split"]["forward"]["detail"]
    assert not rows["add"]["fell_back"]
    assert rows["add"]["backward"]["status"] == "passed"
    assert any("median" in op for op in rows["median"]["forward"]["fallbacks"])
    summary = json.loads(out)["summary"]
    assert summary["skipped"] == 1
    assert summary["passed"] == len(rows) - 1


@pytest.mark.slow
def test_operators_that_raise_or_hang_are_rows(conform: Cli) -> None:
    code, out, _ = conform("--driver", WRONG, "exp", "sign", "sqrt", "ceil", "--timeout", "8")
    assert code == 1
    state = {line.split()[0]: line for line in out.splitlines() if line}
    assert state["sqrt"].split()[2] == "passed"
    assert state["sign"].split()[2] == "passed"
    assert "fell back: aten::sign" in state["sign"]
    assert "timed" in state["ceil"]
    assert "came to no end within 8 seconds" in state["ceil"]
    assert state["exp"].split()[2] == "raised"
    assert "the unit is on fire" in state["exp"]
    assert "1 raised, 1 timed out" in out


@pytest.mark.slow
def test_dtypes_are_those_that_were_asked_for(conform: Cli) -> None:
    code, out, _ = conform("--driver", "host", "bitwise_and", "mul", "--dtypes", "int64,bfloat16", "--json")
    found = [(row["operator"], row["dtype"], row["backward"] is None) for row in json.loads(out)["operators"]]
    assert code == 0
    assert found == [("bitwise_and", "int64", True), ("mul", "bfloat16", False), ("mul", "int64", True)]


def test_unknown_operator_is_refused(conform: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan([Task("add", "float32")], unknown=["no_such_*"], device="d", driver="d")
    monkeypatch.setattr(Suite, "plan", lambda *_: plan)
    code, out, err = conform("add", "no_such_*")
    assert (code, out) == (2, "")
    assert "no operator is called no_such_*" in err


def test_device_that_cannot_be_used_is_one_line(conform: Cli) -> None:
    code, out, err = conform("add", "--driver", "/nowhere/driver.so")
    assert (code, out) == (2, "")
    assert "/nowhere/driver.so" in err
    assert "Traceback" not in err


def test_missing_package_is_named_with_what_to_install(
    conform: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "expecttest.py").write_text("raise ModuleNotFoundError('no', name='expecttest')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, _, err = conform("add", "--driver", "host")
    assert code == 2
    assert "pip install expecttest" in err


# --- worker processes -------------------------------------------------------------------------------------------------

#: This worker gives the answers that it is asked for; at the end of its input it ends.
ANSWERS = """
import json, os, sys, time
print(json.dumps({"done": True}), flush=True)
for line in sys.stdin:
    what = json.loads(line)
    if what == "crash":
        print("about to crash", file=sys.stderr, flush=True)
        os.abort()
    if what == "hang":
        time.sleep(600)
    print(json.dumps({"part": what}))
    print(json.dumps({"done": os.getpid()}), flush=True)
"""


def worker(program: str = ANSWERS) -> Worker:
    return Worker([sys.executable, "-c", program], dict(os.environ))


def answer(worker: Worker, question: str, limit: float = 30) -> Any:
    try:
        return list(worker.ask(question, limit))
    except (WorkerDied, WorkerHung) as error:
        return error


def test_worker_is_replaced_after_a_crash() -> None:
    asked = worker()
    first = answer(asked, "a")[-1]["done"]
    crash = answer(asked, "crash")
    assert isinstance(crash, WorkerDied)
    assert str(crash) == "ended with SIGABRT: about to crash"
    assert answer(asked, "b")[0] == {"part": "b"}
    assert answer(asked, "c")[-1]["done"] != first
    asked.stop()


def test_worker_that_hangs_is_killed_and_replaced() -> None:
    asked = worker()
    hang = answer(asked, "hang", limit=0.5)
    assert isinstance(hang, WorkerHung)
    assert str(hang) == "came to no end within 0.5 seconds (--timeout gives it more)"
    assert answer(asked, "b")[0] == {"part": "b"}
    asked.stop()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ('print(\'{"error": "no such device"}\')', "no such device"),
        ("import os; os.abort()", "a process that uses the device ended with SIGABRT"),
    ],
)
def test_worker_that_cannot_start_says_why(program: str, message: str) -> None:
    with pytest.raises(CannotStart, match=message):
        list(worker(program).ask("a", 30))


def test_results_come_in_the_order_of_the_tasks() -> None:
    workers = [worker(), worker()]
    tasks = [str(number) for number in range(20)]
    assert [found[0]["part"] for found in run_tasks(tasks, workers, answer)] == tasks


def test_no_process_is_left_when_the_caller_stops() -> None:
    asked = worker()
    results = run_tasks(["a", "hang", "b"], [asked], lambda one, task: answer(one, task, limit=600))
    process = next(results)[-1]["done"]
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
