"""``mydev conform kernels``: right kernels pass, whatever they decline; each planted fault is found, by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from support.checkout import DRIVERS
from support.conform_command import Cli, conform_command

pytestmark = pytest.mark.any_driver

WRONG = f"{DRIVERS}/wrong_driver.so"
PARTIAL = f"{DRIVERS}/partial_driver.so"


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "kernels")


@pytest.fixture
def rows(conform: Cli) -> Callable[..., dict[str, dict[str, Any]]]:
    """A function that tests kernels, and returns the row of each kernel by its name."""

    def run(*arguments: str) -> dict[str, dict[str, Any]]:
        code, out, err = conform(*arguments, "--json")
        assert out, err
        report = json.loads(out)
        assert code == int(report["failed"] > 0)
        return {row["kernel"]: row for row in report["kernels"]}

    return run


Rows = Callable[..., dict[str, dict[str, Any]]]

# --- right kernels ----------------------------------------------------------------------------------------------------


def test_few_kernels_that_take_little_pass(rows: Rows) -> None:
    found = rows("--driver", PARTIAL)
    names = ("add", "copy", "fill", "matmul", "mul", "relu", "sum")
    assert {name: row["status"] for name, row in found.items()} == {f"mydev.{name}": "passed" for name in names}
    assert all(row["passed"] > 0 and row["declined"] > 0 and row["wrong"] == 0 for row in found.values())


def test_says_why_cases_were_declined(rows: Rows) -> None:
    found = rows("--driver", PARTIAL, "mydev.sum", "mydev.mul")
    reasons = "\n".join(found["mydev.sum"]["reasons_declined"])
    assert "sums all of a dense operand only" in reasons
    assert ": takes f32" in reasons
    assert ": takes no numbers" in "\n".join(found["mydev.mul"]["reasons_declined"])


def test_right_kernel_of_a_driver_with_wrong_ones_passes(rows: Rows) -> None:
    assert rows("--driver", WRONG, "sqrt")["mydev.sqrt"]["status"] == "passed"


@pytest.mark.parametrize("kernel", ["mydev.exp", "mydev.threefry2x32"])  # of four choices of dtypes, and of one
def test_shares_are_everything_and_have_nothing_twice(rows: Rows, kernel: str) -> None:
    counts = [rows("--host", "--share", share, kernel)[kernel]["passed"] for share in ("0/1", "0/3", "1/3", "2/3")]
    assert counts[0] == sum(counts[1:])
    assert min(counts[1:]) > 0


@pytest.mark.parametrize("share", ["3/3", "1", "a/b"])
def test_a_share_that_is_none_is_refused(conform: Cli, share: str) -> None:
    code, _, err = conform("--share", share)
    assert code == 2
    assert f"'{share}' is no share; write I/N with I below N" in err


@pytest.mark.parametrize("driver", ["host", "host:async,guarded"])
def test_kernels_of_the_host_pass(rows: Rows, driver: str) -> None:
    found = rows("--host", "--driver", driver, "mydev.add", "mydev.softmax", "mydev.fused_adam", "mydev.max_pool2d")
    assert len(found) >= 6
    assert {row["status"] for row in found.values()} == {"passed"}
    assert all(row["declined"] == 0 for row in found.values())


# --- wrong kernels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("relu", "f32, operands reversed: out[0,1] is"),
        ("maximum", "f32, with NaN: out"),
        ("add", "f32, plain: out"),
        ("div", "f32, a is a number: out"),
        ("mul", "memory beside the elements of result 'out' was written, 24 bytes from its first element"),
        ("abs", "f32, plain: operand 'in' was written"),
        ("exp", "it fails: the unit is on fire"),
        ("sum", "f32 f32, empty: out[0,0] is not written, expected 0"),
        ("index_select", "f32 s32, plain; index<d: out[1,0,0] is"),
    ],
)
def test_finds_the_fault(rows: Rows, kernel: str, message: str) -> None:
    row = rows("--driver", WRONG, f"mydev.{kernel}")[f"mydev.{kernel}"]
    assert row["status"] == "failed"
    assert row["wrong"] > 0
    assert message in "\n".join(row["messages"])


def test_names_the_layout_and_both_values(rows: Rows) -> None:
    messages = rows("--driver", WRONG, "mydev.relu")["mydev.relu"]["messages"]
    assert re.search(
        r"out\[0,1\] is \S+, expected \S+, in mydev\.relu\(out f32\[2,3\], f32\[2,3\]\{1,2\}\)", messages[0]
    )


def test_crash_is_one_kernels_and_says_where(rows: Rows) -> None:
    found = rows("--driver", WRONG, "mydev.floor", "sqrt")
    assert found["mydev.sqrt"]["status"] == "passed"
    messages = "\n".join(found["mydev.floor"]["messages"])
    assert "f32, 3 dimensions: it came to a bad end" in messages
    assert "ended with SIGABRT" in messages


def test_hang_is_one_kernels(rows: Rows) -> None:
    row = rows("--driver", WRONG, "mydev.ceil", "--timeout", "1")["mydev.ceil"]
    assert row["status"] == "failed"
    assert "came to no end within 1 seconds" in "\n".join(row["messages"])


# --- the command ------------------------------------------------------------------------------------------------------


def test_prints_a_table_and_a_summary(conform: Cli) -> None:
    code, out, _ = conform("--driver", WRONG, "mydev.sqrt", "mydev.relu")
    assert code == 1
    lines = out.splitlines()
    assert any(line.split()[:2] == ["mydev.sqrt", "passed"] for line in lines)
    assert any(line.split()[:2] == ["mydev.relu", "WRONG"] for line in lines)
    assert "2 kernels, 1 wrong: mydev.relu" in out


def test_summary_of_one_kernel(conform: Cli) -> None:
    _, out, _ = conform("--driver", PARTIAL, "mydev.relu")
    assert "\n1 kernel, none is wrong\n" in out


def test_prints_reasons_on_request(conform: Cli) -> None:
    _, silent, _ = conform("--driver", PARTIAL, "mydev.relu")
    _, out, _ = conform("--driver", PARTIAL, "mydev.relu", "--reasons")
    assert "declined: " not in silent
    assert ": takes dense operands" in out


def test_driver_without_kernels_is_reported(conform: Cli) -> None:
    code, out, err = conform("--driver", f"{DRIVERS}/discrete_driver.so")
    assert (code, out) == (1, "")
    assert "driver 'discrete' offers no kernel that has a contract" in err


def test_kernel_that_the_driver_does_not_offer(conform: Cli) -> None:
    code, _, err = conform("--driver", PARTIAL, "mydev.softmax")
    assert code == 1
    assert "the driver does not offer mydev.softmax" in err


def test_unknown_kernel_is_refused_with_a_near_name(conform: Cli) -> None:
    code, _, err = conform("mydev.sotfmax")
    assert code == 2
    assert "mydev.softmax" in err


@pytest.mark.parametrize("name", ["nosuchkernel", "offered"])
def test_advice_for_an_unknown_kernel_names_kernels_alone(conform: Cli, name: str) -> None:
    code, _, err = conform(name)
    assert code == 2
    advice = err.removeprefix(f"error: no kernel has '{name}' in its name; ")
    assert re.fullmatch(r"did you mean mydev\.\w+( or mydev\.\w+)*\?\n|'mydev kernels list --all' names them\n", advice)


def test_driver_that_cannot_be_loaded(conform: Cli) -> None:
    code, _, err = conform("--driver", "/nowhere/driver.so")
    assert code == 1
    assert "/nowhere/driver.so" in err
