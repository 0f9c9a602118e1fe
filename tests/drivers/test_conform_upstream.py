"""``mydev conform upstream``: it runs tests/conformance/upstream, in the form of PyTorch's tests and of JAX's, and
tells of files and processes that come to a bad end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mydev.cli import added
from mydev.cli.conform.upstream.checkout import PYTORCH, Checkout
from mydev.cli.conform.upstream.command import run
from mydev.cli.conform.upstream.ledger import Row, compare
from mydev.cli.conform.upstream.suite import LOADING, Choice, Sides, Suite
from pjrt.clients import require
from support.checkout import TESTS
from support.conform_command import Cli, conform_command

pytestmark = pytest.mark.any_driver

FORMS = TESTS / "conformance" / "upstream"
FILE = "test_upstream_form.py"
ASKED = "fail,crash"  #: what tests of the forms do on the device when they are asked

Ledger = dict[str, Any]


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "upstream", "--driver", "host")


def made(directory: Path, *arguments: str) -> Ledger:
    """The ledger of a run on the host driver."""
    path = directory / "ledger.json"
    assert run([*arguments, "--driver", "host", "--ledger", str(path)]) == 0
    ledger: Ledger = json.loads(path.read_text())
    return ledger


def statuses(rows: Ledger) -> dict[str, str]:
    return {test: row["status"] for test, row in rows.items()}


# --- PyTorch ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_pytorch(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return made(tmp_path_factory.mktemp("ledger"), "--pytorch", str(FORMS / "pytorch"))


@pytest.mark.slow
def test_each_test_of_pytorch_ends_in_its_way(of_pytorch: Ledger) -> None:
    assert statuses(of_pytorch["files"][FILE]) == {
        "TestForm.test_crashes_when_asked": "passed",
        "TestForm.test_fails_on_each_device": "failed on the CPU too",
        "TestForm.test_fails_when_asked": "passed",
        "TestForm.test_is_for_the_cpu": "skipped",
        "TestForm.test_is_marked_as_one_that_fails": "passed",
        "TestForm.test_needs_many_devices": "skipped",
        "TestForm.test_parts": "passed",
        "TestForm.test_softmax_dim_0": "passed",
        "TestForm.test_softmax_dim_1": "passed",
        "TestForm.test_sum_float32": "passed",
        "TestForm.test_sum_int64": "passed",
        "TestFixture.test_first": "failed on the CPU too",
        "TestFixture.test_second": "failed on the CPU too",
        "TestAccelerator.test_weights_of_the_cpu_move": "passed",
    }
    assert of_pytorch["summary"] == {
        "passed": 9,
        "failed": 0,
        "crashed": 0,
        "timed out": 0,
        "failed on the CPU too": 3,
        "skipped": 2,
    }


@pytest.mark.slow
def test_rows_say_why(of_pytorch: Ledger) -> None:
    rows = of_pytorch["files"][FILE]
    assert rows["TestForm.test_is_for_the_cpu"]["detail"] == "Only runs on cpu"
    assert rows["TestForm.test_fails_on_each_device"]["detail"].endswith("one is not zero")
    assert rows["TestForm.test_fails_on_each_device"]["cpu"] == "failed"
    assert rows["TestFixture.test_second"]["detail"] == "RuntimeError: the fixture fails"


@pytest.mark.slow
def test_failures_of_the_device_are_reported(
    conform: Cli, of_pytorch: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_FORM", ASKED)
    earlier, now = tmp_path / "earlier.json", tmp_path / "now.json"
    earlier.write_text(json.dumps(of_pytorch))
    code, out, _ = conform(
        *("--pytorch", str(FORMS / "pytorch"), FILE, "--filter", "when_asked", "--filter", "*_sum_*"),
        *("--jobs", "1", "--compare", str(earlier), "--ledger", str(now)),
    )
    assert code == 1
    rows = json.loads(now.read_text())["files"][FILE]
    assert statuses(rows) == {
        "TestForm.test_crashes_when_asked": "crashed",
        "TestForm.test_fails_when_asked": "failed",
        "TestForm.test_sum_float32": "passed",
        "TestForm.test_sum_int64": "passed",
    }
    assert all(row["cpu"] == "passed" for test, row in rows.items() if "asked" in test)
    assert "SIGABRT" in rows["TestForm.test_crashes_when_asked"]["detail"]
    assert "2 tests worse than in" in out
    assert f"{FILE} TestForm.test_fails_when_asked: passed, now failed" in out
    assert "score: 2 of 4" in out


# --- JAX --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_test_of_jax_ends_in_its_way(tmp_path: Path) -> None:
    require("jax", "jax==0.10.2")
    ledger = made(tmp_path, "--jax", str(FORMS / "jax"))
    assert ledger["framework"] == "JAX"
    assert statuses(ledger["files"]["form_test.py"]) == {
        "FormTest.test_crashes_when_asked": "passed",
        "FormTest.test_fails_on_each_device": "failed on the CPU too",
        "FormTest.test_fails_when_asked": "passed",
        "FormTest.test_gradient": "passed",
        "FormTest.test_is_for_the_cpu": "skipped",
        "FormTest.test_sum0": "passed",
        "FormTest.test_sum1": "passed",
    }


@pytest.mark.slow
def test_failures_of_the_device_in_jax_are_reported(conform: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    require("jax", "jax==0.10.2")
    monkeypatch.setenv("UPSTREAM_FORM", ASKED)
    code, out, _ = conform("--jax", str(FORMS / "jax"), "--filter", "when_asked", "--json", "--jobs", "1")
    assert code == 1
    rows = json.loads(out)["files"]["form_test.py"]
    assert statuses(rows) == {"FormTest.test_crashes_when_asked": "crashed", "FormTest.test_fails_when_asked": "failed"}


# --- what cannot be run -----------------------------------------------------------------------------------------------


def test_folder_that_is_no_checkout_is_one_line(conform: Cli, tmp_path: Path) -> None:
    code, out, err = conform("--pytorch", str(tmp_path))
    assert (code, out) == (2, "")
    assert err == f"error: there is no folder {tmp_path}/test; give the root of a checkout of PyTorch\n"


def test_folder_without_such_tests_is_one_line(conform: Cli, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "other_test.py").write_text("import unittest\n")
    code, _, err = conform("--jax", str(tmp_path))
    assert code == 2
    assert err == f"error: no file of {tmp_path}/tests has tests for any device, with 'absltest' in its text\n"


def test_file_that_is_not_there_is_one_line(conform: Cli) -> None:
    code, _, err = conform("--pytorch", str(FORMS / "pytorch"), "test_ops")
    assert code == 2
    assert "has 'test_ops' in its name" in err


def test_driver_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    conform = conform_command(capsys, "upstream", "--driver", "/nowhere/driver.so")
    code, out, err = conform("--pytorch", str(FORMS / "pytorch"))
    assert (code, out) == (2, "")
    assert "/nowhere/driver.so" in err
    assert len(err.splitlines()) == 1


def test_pytorch_needs_the_package_for_it(conform: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added, "entry_points", lambda **_: [])
    code, _, err = conform("--pytorch", str(FORMS / "pytorch"))
    assert code == 2
    assert "'mydev conform upstream' comes with torch_mydev" in err


def test_ledger_of_something_else_is_refused(conform: Cli, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("{}")
    code, _, err = conform("--pytorch", str(FORMS / "pytorch"), "--compare", str(path))
    assert code == 2
    assert f"{path} is no ledger of 'mydev conform upstream'" in err


# --- processes and threads, without a framework -----------------------------------------------------------------------

#: A framework whose tests are unittest's; the CPU's side has CPU in its environment.
PROGRAM = """
import unittest
from mydev.cli.conform.upstream.worker import Framework, serve

def load(module):
    return {f"Plain.{name}": (module.Plain, name) for name in unittest.defaultTestLoader.getTestCaseNames(module.Plain)}

serve(Framework(lambda: {}, load))
"""

Rows = Callable[..., dict[str, Row]]


@pytest.fixture
def rows_of(tmp_path: Path) -> Rows:
    """Runs a file that begins with the body of its class, then with other lines; gives its rows."""
    (tmp_path / "program.py").write_text(PROGRAM)
    sides = Sides((sys.executable, str(tmp_path / "program.py")), {"CPU": ""}, {"CPU": "yes"})

    def run(
        body: str,
        *,
        first: str = "",
        jobs: int = 1,
        limit: float = 60.0,
        patterns: tuple[str, ...] = (),
        share: str = "0/1",
    ) -> dict[str, Row]:
        lines = ["import os, time, unittest", "CPU = bool(os.environ['CPU'])", first, "class Plain(unittest.TestCase):"]
        (tmp_path / "plain.py").write_text("\n".join([*lines, body]))
        suite = Suite(tmp_path, sides, jobs, limit)
        return dict(suite.run(["plain.py"], Choice(patterns, share)))["plain.py"]

    return run


def test_what_the_cpu_does_is_asked_of_failures_alone(rows_of: Rows) -> None:
    rows = rows_of("    def test_a(self): assert CPU\n    def test_b(self): assert False\n    def test_c(self): pass")
    assert [(row.status, row.cpu) for row in rows.values()] == [
        ("failed", "passed"),
        ("failed on the CPU too", "failed"),
        ("passed", ""),
    ]


def test_test_that_the_cpu_does_not_have_is_the_devices_failure(rows_of: Rows) -> None:
    rows = rows_of("    if not CPU:\n        def test_a(self): assert False")
    assert [(row.status, row.cpu) for row in rows.values()] == [("failed", "absent")]


def test_file_that_fails_on_the_device_alone(rows_of: Rows) -> None:
    rows = rows_of("    def test_a(self): pass", first="assert CPU, 'the device is not there'")
    assert list(rows) == [LOADING]
    assert (rows[LOADING].status, rows[LOADING].cpu) == ("failed", "passed")
    assert "the device is not there" in rows[LOADING].detail


@pytest.mark.parametrize("first", ["raise unittest.SkipTest('not here')", "raise SystemExit('not here')"])
def test_file_that_leaves_is_skipped(rows_of: Rows, first: str) -> None:
    rows = rows_of("    def test_a(self): pass", first=first)
    assert {test: row.status for test, row in rows.items()} == {LOADING: "skipped"}
    assert "not here" in rows[LOADING].detail


def test_test_that_hangs_costs_itself_alone(rows_of: Rows) -> None:
    body = "    def test_a(self): CPU or time.sleep(600)\n    def test_b(self): pass"
    rows = rows_of(body, limit=0.5)
    assert [(row.status, row.cpu) for row in rows.values()] == [("timed out", "passed"), ("passed", "")]
    assert "within 0.5 seconds (--timeout gives it more)" in rows["Plain.test_a"].detail


def test_fixtures_of_a_class_are_made_once(rows_of: Rows) -> None:
    rows = rows_of(
        """    made = 0
    @classmethod
    def setUpClass(cls): cls.made += 1
    def test_a(self): self.assertEqual(self.made, 1)
    def test_b(self): self.assertEqual(self.made, 1)"""
    )
    assert [row.status for row in rows.values()] == ["passed", "passed"]


def test_skipped_class_skips_each_test(rows_of: Rows) -> None:
    rows = rows_of(
        """    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("no such hardware")
    def test_a(self): pass
    def test_b(self): pass"""
    )
    assert [(row.status, row.detail) for row in rows.values()] == [("skipped", "no such hardware")] * 2


def test_threads_share_a_long_file(rows_of: Rows) -> None:
    body = "\n".join(f"    def test_{i:02}(self): time.sleep(0.1); self.fail(str(os.getpid()))" for i in range(40))
    rows = rows_of(body, jobs=2)
    assert list(rows) == [f"Plain.test_{i:02}" for i in range(40)]
    assert len({row.detail for row in rows.values()}) == 2


def test_filter_and_share_choose_tests(rows_of: Rows) -> None:
    body = "\n".join(f"    def test_{name}(self): pass" for name in ("a1", "a2", "a3", "b1"))
    assert list(rows_of(body, patterns=("Plain.test_a*",), share="0/2")) == ["Plain.test_a1", "Plain.test_a3"]


def test_comparison_tells_what_is_better_and_worse() -> None:
    def files(**found: str) -> dict[str, dict[str, Row]]:
        return {"f": {test: Row(status.replace("_", " ")) for test, status in found.items()}}

    before = files(a="passed", b="failed", c="skipped", d="passed", e="failed", f="passed")
    now = files(a="failed", b="passed", c="passed", d="skipped", e="failed", f="failed on the CPU too", g="crashed")
    comparison = compare(before, now)
    assert [line.split()[1] for line in comparison.better] == ["b:", "c:"]
    assert [line.split()[1] for line in comparison.worse] == ["a:", "d:", "g:"]


def test_version_of_a_checkout_is_read(tmp_path: Path) -> None:
    (tmp_path / "version.txt").write_text("2.13.0a0\n")
    assert Checkout(PYTORCH, tmp_path).version() == "2.13"
