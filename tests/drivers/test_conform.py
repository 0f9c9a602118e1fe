"""``mydev conform``: the conformance suite on sound drivers and on drivers with a fault, and what it prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mydev.cli.conform.suite import PROGRAM
from support.checkout import DRIVERS, ROOT, environment
from support.conform_command import Cli, conform_command

pytestmark = pytest.mark.any_driver

DISCRETE = f"{DRIVERS}/discrete_driver.so"
ASYNCHRONOUS = f"{DRIVERS}/asynchronous_driver.so"
COMPILER = f"{DRIVERS}/compiler_driver.so"
HOST_IN_ALL_MODES = "host:async,guarded,devices=2"
BROKEN = DRIVERS / "broken_driver.so"
FAULTY = f"{DRIVERS / 'faulty_host_driver.so'}:async"
FAULTY_DISCRETE = f"{DRIVERS / 'faulty_asynchronous_driver.so'}:devices=1"


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "driver")


@pytest.fixture
def results(conform: Cli) -> Callable[..., dict[str, dict[str, Any]]]:
    """A function that runs cases, and returns the row of each case by its name."""

    def run(driver: str, *arguments: str) -> dict[str, dict[str, Any]]:
        code, out, _ = conform("--driver", driver, "--json", *arguments)
        report = json.loads(out)
        assert code == int(report["failed"] > 0)
        return {row["name"]: row for row in report["cases"]}

    return run


Results = Callable[..., dict[str, dict[str, Any]]]


def fault(name: str, driver: str = FAULTY) -> str:
    return f"{driver},fault={name}"


def messages(row: dict[str, Any]) -> str:
    return "\n".join(row["messages"])


# --- sound drivers ----------------------------------------------------------------------------------------------------


@cache
def whole_suite(driver: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of all cases, run by the installed command."""
    child = [sys.executable, "-m", "mydev", "conform", "driver", "--json"]
    child_environment = environment(MYDEV_DRIVER=driver)
    result = subprocess.run(child, env=child_environment, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    return result.returncode, json.loads(result.stdout)


def skipped_cases(driver: str) -> dict[str, str]:
    return {row["name"]: messages(row) for row in whole_suite(driver)[1]["cases"] if row["status"] == "skipped"}


@pytest.mark.parametrize("driver", ["host", HOST_IN_ALL_MODES, DISCRETE, ASYNCHRONOUS, COMPILER])
def test_no_case_fails_on_a_sound_driver(driver: str) -> None:
    code, report = whole_suite(driver)
    failed = [f"{row['name']}: {messages(row)}" for row in report["cases"] if row["status"] == "failed"]
    assert (failed, code) == ([], 0)
    assert report["driver"] == driver
    assert report["passed"] + report["skipped"] == len(report["cases"])
    assert report["passed"] >= 40


@pytest.mark.parametrize("driver", ["host", DISCRETE])
def test_nothing_is_skipped_without_a_reason(driver: str) -> None:
    skipped = skipped_cases(driver)
    assert len(skipped) > 5
    assert all(skipped.values())


def test_driver_with_every_entry_skips_only_what_it_has_no_part_in() -> None:
    skipped = skipped_cases(HOST_IN_ALL_MODES)
    strays = [name for name in skipped if name.startswith("a_stray_")]
    programs = [name for name, reason in skipped.items() if "no extension 'programs'" in reason]
    assert len(programs) == 6
    collectives = [name for name, reason in skipped.items() if "no extension 'collectives'" in reason]
    assert len(collectives) == 6
    # Its compiler's C++ has no fault word, and it borrows no frame.
    none = {"a_borrowed_frame_is_not_completed", "an_unknown_kernel_is_not_found", "a_fault_word_fails_the_launch"}
    assert set(skipped) <= {*none, *strays, *programs, *collectives}


def test_a_driver_that_compiles_programs_is_asked_for_all_of_it() -> None:
    skipped = skipped_cases(str(DRIVERS / "program_driver.so"))
    assert not any("extension 'programs'" in reason or "declines" in reason for reason in skipped.values())


def test_a_driver_that_connects_its_devices_is_asked_for_all_of_it() -> None:
    skipped = skipped_cases(str(DRIVERS / "collectives_driver.so:devices=2"))
    assert not any(name.startswith("groups_") for name in skipped)


@pytest.mark.parametrize("driver", [DISCRETE, ASYNCHRONOUS])
def test_stray_accesses_are_tried_where_the_host_does_not_reach(driver: str) -> None:
    assert not any(name.startswith("a_stray_") for name in skipped_cases(driver))


def test_driver_is_that_of_the_environment(conform: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYDEV_DRIVER", DISCRETE)
    _, out, _ = conform("the_host_reads", "--json")
    assert json.loads(out)["driver"] == DISCRETE
    assert json.loads(out)["cases"][-1]["messages"] == ["device memory is not host-accessible"]


# --- drivers with a fault ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "case", "message"),
    [
        (fault("late_read"), "small_sources_may_change_after_the_call", "that changed after the call"),
        (fault("early_return"), "copies_to_ordinary_memory_are_done_on_return", "on return of the copy"),
        (fault("completion_twice"), "an_accepted_launch_is_completed_once", "was called is 2; expected 1"),
        (fault("completion_never"), "an_accepted_launch_is_completed_once", "complete was not called within"),
        (fault("completion_early"), "a_pending_launch_is_not_completed", "while work before it was pending"),
        (fault("host_call_twice"), "a_host_call_comes_once", "was called is 2; expected 1"),
        (fault("host_call_never"), "a_host_call_comes_once", "was not called within"),
        (fault("host_call_early"), "a_host_call_waits_for_earlier_work", "while work before it was pending"),
        (fault("on_done_twice"), "on_done_comes_once", "was called is 2; expected 1"),
        (fault("on_done_never"), "on_done_comes_once", "was not called within"),
        (fault("on_done_early"), "on_done_waits_for_the_work", "while work before it was pending"),
        (fault("late_on_done"), "on_done_keeps_the_record_that_it_was_given", "while work before it was pending"),
        (fault("late_wait"), "a_wait_keeps_the_record_that_it_was_given", "since it was recorded again later"),
        (fault("late_wait"), "a_wait_ignores_later_records", "waits for what an event recorded after"),
        (f"{BROKEN}:fail=host_access_end", "the_host_reads_and_writes_accessible_memory", "host_access_end failed"),
        (fault("lost_compiled_launch"), "a_compiled_kernel_runs", "bytes are wrong"),
        (fault("one_group"), "the_geometry_says_how_many_threads", "bytes are wrong"),
        (fault("any_kernel"), "a_missing_kernel_is_not_found", "is 'OK'; expected 'NOT_FOUND'"),
        (fault("silent_compiler"), "bad_source_is_refused", "is 'INTERNAL'; expected 'INVALID_ARGUMENT'"),
        (fault("strange_kernel"), "listed_kernels_are_found", "find_kernel gives another record, or none"),
        (fault("lost_copy", FAULTY_DISCRETE), "a_stray_copy_on_the_device_is_reported", "neither stream_synchronize"),
        (fault("lost_fill", FAULTY_DISCRETE), "a_stray_fill_is_reported", "neither stream_synchronize"),
    ],
)
def test_case_finds_the_fault(results: Results, driver: str, case: str, message: str) -> None:
    row = results(driver, case)[case]
    assert row["status"] == "failed"
    assert message in messages(row)


@pytest.mark.parametrize("driver", [FAULTY, FAULTY_DISCRETE])
def test_faulty_driver_without_a_fault_is_sound(results: Results, driver: str) -> None:
    rows = results(driver, "copies", "event", "host_call", "complete", "on_done", "a_stray")
    assert [messages(row) for row in rows.values() if row["status"] == "failed"] == []


def test_failing_entry_is_named_with_its_message(results: Results) -> None:
    rows = results(f"{BROKEN}:fail=event_create", "event", "fills")
    assert rows["fills_repeat_their_pattern"]["status"] == "passed"
    assert rows["a_synchronized_event_is_done"]["status"] == "failed"
    assert messages(rows["a_synchronized_event_is_done"]) == (
        "event_create failed: event_create fails on request [INTERNAL]"
    )


# --- cases that come to a bad end -------------------------------------------------------------------------------------


def test_case_that_hangs_is_ended_and_the_next_is_tried(results: Results) -> None:
    rows = results(fault("hang"), "--timeout", "1", "host_calls_come_in_order", "makes_streams_of_each_priority")
    assert rows["makes_streams_of_each_priority"]["status"] == "passed"
    hung = rows["host_calls_come_in_order"]
    assert hung["status"] == "failed"
    assert (
        messages(hung)
        == "its process came to no end within 1 seconds (--timeout gives it more), before the case was done"
    )
    assert 1 <= hung["seconds"] < 10


def test_case_that_crashes_is_named_with_signal_and_last_words(results: Results) -> None:
    rows = results(fault("abort"), "copies_parts_of_an_allocation", "fills_keep", "makes_streams")
    assert rows["makes_streams_of_each_priority"]["status"] == "passed"
    crashed = rows["copies_parts_of_an_allocation"]
    assert crashed["messages"] == [
        "its process ended with SIGABRT, before the case was done",
        "stderr: this driver aborts in copy",
    ]


def test_case_whose_process_exits_has_failed(results: Results) -> None:
    row = results(fault("exit"), "a_synchronized_event_is_done")["a_synchronized_event_is_done"]
    assert row["status"] == "failed"
    assert messages(row) == "its process ended with exit code 0, before the case was done"


def test_driver_that_crashes_at_exit_fails_cases_that_had_passed(results: Results) -> None:
    row = results(fault("abort_at_exit"))["loads"]
    assert row["status"] == "failed"
    assert messages(row) == "its process ended with SIGABRT, though the case had passed"


def test_driver_that_does_not_load_ends_the_suite(conform: Cli) -> None:
    code, out, _ = conform("--driver", "./no_such_driver.so", "--json")
    report = json.loads(out)
    assert code == 1
    assert [row["name"] for row in report["cases"]] == ["loads"]
    assert "no such file" in messages(report["cases"][0])
    assert report["not_tried"] > 80


# --- the command ------------------------------------------------------------------------------------------------------


def test_table_is_grouped_in_bring_up_order(conform: Cli) -> None:
    code, out, _ = conform("--driver", fault("on_done_twice"), "allocations", "on_done", "a_borrowed", "loads")
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == f"suite driver, MYDEV_DRIVER={fault('on_done_twice')}"
    groups = [line for line in lines[1:] if line in ("handshake and devices", "memory", "events", "completions")]
    assert groups == ["handshake and devices", "memory", "events", "completions"]
    assert re.search(r"^  passed  allocations_do_not_overlap +two allocations share no byte$", out, re.MULTILINE)
    assert re.search(r"^  skipped a_borrowed_frame_is_not_completed +the driver owns the frames", out, re.MULTILINE)
    assert re.search(r"^  FAILED  on_done_comes_once .*\n +-> the number of times that .* is 2; expected 1$", out, re.M)
    assert re.search(r"^\d+ cases: \d+ passed, [1-9] failed, 1 skipped, in \d+\.\d s$", lines[-2])
    assert lines[-1] == "begin with on_done_comes_once: later cases build on earlier ones"


def test_summary_of_one_case(conform: Cli) -> None:
    _, out, _ = conform("--driver", "./no_such_driver.so")
    assert re.search("^1 case: 0 passed, 1 failed, 0 skipped, in ", out, re.MULTILINE)


def test_list_names_the_promises_and_runs_nothing(conform: Cli) -> None:
    code, out, _ = conform("--list", "--json", "--driver", "./no_such_driver.so")
    rows = json.loads(out)
    assert code == 0
    assert rows[0]["name"] == "loads"
    assert rows[0]["prerequisite"]
    assert len({row["name"] for row in rows}) == len(rows)
    assert all(row["promise"] and row["group"] for row in rows)
    code, out, _ = conform("--list")
    assert code == 0
    assert "fills_repeat_their_pattern" in out


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("uuid", 0),
        ("strided_to_host_dense", 1),
        ("strided_to_host_*", 7),
        ("*_to_host_dense", 1),
        ("to_host_dense*", 0),
    ],
)
def test_names_are_parts_or_forms(conform: Cli, pattern: str, names: int) -> None:
    code, out, err = conform("--list", "--json", pattern)
    if names == 0:
        assert code == 2
        assert f"no case has '{pattern}' in its name" in err
    else:
        rows = json.loads(out)
        assert rows[0]["name"] == "loads"  # a prerequisite, whatever was asked for
        assert len(rows) == 1 + names


def test_groups_are_those_of_the_page(conform: Cli) -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    table = page.partition("| group | what is tried |")[2].partition("\n\n")[0]
    _, out, _ = conform("--list", "--json")
    groups = [row["group"] for row in json.loads(out)]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == list(dict.fromkeys(groups))


def test_misspelt_name_is_reported_with_what_is_near(conform: Cli) -> None:
    code, _, err = conform("alocations_do_not_overlap")
    assert code == 2
    assert "did you mean allocations_do_not_overlap" in err


def test_command_loads_neither_torch_nor_a_driver_itself() -> None:
    code = (
        "import sys; sys.argv[0] = 'mydev'\n"
        "from mydev.cli import main\n"
        "assert main(['conform', 'driver', 'loads']) == 0\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'mydev' not in open('/proc/self/maps').read()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_missing_program_is_an_error_that_says_where(conform: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mydev.cli.conform.suite.PROGRAM", Path("/nowhere/mydev_conform"))
    code, _, err = conform()
    assert code == 1
    assert "there is no /nowhere/mydev_conform" in err


# --- the program ------------------------------------------------------------------------------------------------------


def program(*arguments: str, driver: str = "host") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYDEV_DRIVER": driver}
    return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("driver", "--case", "names_itself"), 0),
        (("driver", "--case", "a_stray_fill_is_reported"), 77),
        (("driver", "--case", "no_such_case"), 2),
        (("no_such_suite",), 2),
        (("driver", "--what"), 2),
        ((), 2),
    ],
)
def test_exit_code_of_the_program(arguments: tuple[str, ...], code: int) -> None:
    assert program(*arguments).returncode == code


def test_program_runs_all_cases_in_one_process() -> None:
    result = program("driver", driver=ASYNCHRONOUS)
    rows = [json.loads(line) for line in result.stdout.splitlines() if line]
    listed = program("driver", "--list").stdout.splitlines()
    assert result.returncode == 0
    assert [row["name"] for row in rows] == [json.loads(line)["name"] for line in listed if line]


def test_failing_case_in_one_process_is_a_failure_of_all() -> None:
    result = program("driver", driver=f"{BROKEN}:fail=event_create")
    assert result.returncode == 1
    assert '"status": "passed"' in result.stdout.splitlines()[-1]


def test_installed_program_is_executable() -> None:
    assert os.access(ROOT / "mydev" / "lib" / "mydev_conform", os.X_OK)
