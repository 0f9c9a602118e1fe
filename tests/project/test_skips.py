"""A skip is seen: those for reasons that tests/allowed_skips.txt does not have fail."""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.checkout import ROOT, TESTS, environment
from support.googletest_skips import faults
from support.skips import allowed, is_allowed

pytestmark = pytest.mark.any_driver

REASON = "needs two devices"
OTHER = "the library is not built"


# --- pytest -----------------------------------------------------------------------------------------------------------

TESTS_OF_A_FILE = """
import pytest, unittest
def test_call(): pytest.skip("{reason}")
@pytest.mark.skip(reason="{reason}")
def test_mark(): pass
@pytest.fixture
def value(): pytest.skip("{reason}")
def test_fixture(value): pass
def test_unittest(): raise unittest.SkipTest("{reason}")
def test_known(): pytest.xfail("known")
"""


def run(directory: Path, text: str, *options: str) -> tuple[int, str]:
    (directory / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "support.skips", *options, "test_it.py"]
    result = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, cwd=directory, timeout=120
    )
    return result.returncode, result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_each_skip_for_another_reason_fails(tmp_path: Path, workers: list[str]) -> None:
    code, out = run(tmp_path, TESTS_OF_A_FILE.format(reason=OTHER), "--strict-skips", *workers)
    assert code == 1
    assert out.count(f"\nskipped: {OTHER}") == 4
    assert "2 failed, 1 xfailed, 2 errors" in out


def test_a_module_that_is_skipped_for_another_reason_fails(tmp_path: Path) -> None:
    code, out = run(tmp_path, "import pytest; pytest.importorskip('no_such_library')", "--strict-skips")
    assert code != 0
    assert "skipped: could not import 'no_such_library'" in out


@pytest.mark.parametrize(("reason", "options"), [(REASON, ["--strict-skips"]), (OTHER, [])])
def test_skips_are_counted_with_their_reason(tmp_path: Path, reason: str, options: list[str]) -> None:
    code, out = run(tmp_path, TESTS_OF_A_FILE.format(reason=reason), *options)
    assert code == 0
    assert f"    4 skipped: {reason}\n    1 failed as expected: known\n4 skipped, 1 xfailed" in out


# --- googletests ------------------------------------------------------------------------------------------------------


def log(*runs: tuple[str, str]) -> str:
    """ctest's, of a program that runs one test several times: the result, and the reason of a skip."""
    return "".join(
        'Command: "/build/tests/cpp/test_stream"\n'
        "[ RUN      ] Stream.Waits/0\n"
        + (f"/tests/cpp/runtime/test_stream.cpp:39: Skipped\n{reason}\n\n" if reason else "")
        + f"[{result:>9} ] Stream.Waits/0, where GetParam() = 2 (0 ms)\n"
        for result, reason in runs
    )


def test_a_googletest_may_be_skipped_with_some_drivers() -> None:
    assert faults(log(("SKIPPED", REASON), ("OK", ""))) == []


def test_a_googletest_must_run_with_a_driver() -> None:
    expected = [f"test_stream: Stream.Waits/0 is skipped with each driver: {REASON}"]
    assert faults(log(("SKIPPED", REASON), ("SKIPPED", REASON))) == expected


def test_a_googletest_is_skipped_for_a_reason_of_the_list() -> None:
    (fault,) = faults(log(("SKIPPED", OTHER), ("OK", "")))
    assert fault.endswith(f"does not have: {OTHER}")


# --- the list ---------------------------------------------------------------------------------------------------------


def python_reasons(text: str) -> Iterator[str]:
    """The reasons of a file's skips; "?" stands for what is computed."""
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("skip", "skipif"):
            for reason in [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "reason")]:
                parts = reason.values if isinstance(reason, ast.JoinedStr) else [reason]
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in parts)


@cache
def reasons() -> set[str]:
    """The reasons of all skips in the sources."""
    found = {reason for path in TESTS.rglob("*.py") for reason in python_reasons(path.read_text(encoding="utf-8"))}
    for path in (TESTS / "cpp").rglob("*.cpp"):
        found |= set(re.findall(r'GTEST_SKIP\(\) << "([^"]*)"', path.read_text(encoding="utf-8")))
    found |= set(re.findall(r'SKIP_REGULAR_EXPRESSION "([^"]*)"', (TESTS / "cpp" / "CMakeLists.txt").read_text()))
    return found | set(re.findall(r"echo \"skipped: (.*)\"", (ROOT / "tools" / "setup_torch_xla.sh").read_text()))


@pytest.mark.parametrize("pattern", allowed())
def test_a_reason_of_the_list_is_still_given(pattern: str) -> None:
    assert fnmatch.filter(reasons(), pattern)


def test_what_is_not_there_is_not_on_the_list() -> None:
    absent = [reason for reason in reasons() if re.search("not built|not installed|downloaded", reason)]
    assert absent
    assert [reason for reason in absent if is_allowed(reason)] == []
