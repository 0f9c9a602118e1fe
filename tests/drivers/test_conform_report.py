"""``mydev conform report``: what the page says of suites and models, how two runs differ, and what is no report."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.checkout import DRIVERS
from support.conform_command import Cli, conform_command
from torch_mydev.cli.conform.report_tables import HOW, MEANING, failed, how, tables_of
from torch_mydev.cli.conform.report_views import as_html, as_markdown

pytestmark = pytest.mark.any_driver


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str]) -> Cli:
    return conform_command(capsys, "report")


def answer(*ways: str, fallbacks: tuple[str, ...] = (), declined: dict[str, str] | None = None) -> dict[str, Any]:
    return {"status": "passed", "detail": "", "fallbacks": fallbacks, "declined": declined or {}, "ways": ways}


def operator(name: str, dtype: str, **changes: Any) -> dict[str, Any]:
    row = {"status": "passed", "operator": name, "dtype": dtype, "forward": answer("native"), "backward": None}
    return {**row, **changes}


def report() -> dict[str, Any]:
    """The report of a device that computes sort on the CPU, and exp wrongly in float64."""
    case = {"group": "memory", "name": "aligned", "promise": "it is <aligned>", "status": "passed", "messages": []}
    counts = {"passed": 3, "declined": 2, "wrong": 0, "not_compared": 0}
    kernel = {"kernel": "mydev.exp", "status": "passed", "messages": [], "reasons_declined": ["2: takes f32"]}
    wrong = {**answer("native"), "status": "differs", "detail": "1 != 2"}
    call = {"operator": "aten::sort", "operands": "float32[8]", "calls": 2, "declined": ["takes f64"]}
    operators = [
        operator("exp", "float32"),
        operator("exp", "float64", status="differs", forward=wrong),
        operator("sort", "float32", forward=answer("falls back", fallbacks=("aten::sort",))),
    ]
    suites = {
        "driver": {"cases": [case], "not_tried": 0, "seconds": 1},
        "kernels": {"sources": {"driver": {"kernels": [{**kernel, "dtypes": {"f32": counts}}]}}, "seconds": 1},
        "operators": {"operators": operators, "device": "d", "driver": "d", "seconds": 1},
        "models": {
            "device": {"name": "chip"},
            "models": [
                {
                    "model": "tiny",
                    "status": "passed",
                    "detail": "",
                    "operators": [{**call, "ways": ["native", "falls back"]}],
                }
            ],
            "seconds": 1,
        },
    }
    head = {"format": 1, "driver": "d", "when": "today", "share": "0/1", "only": []}
    return {**head, "versions": {"mydev": "1"}, "machine": {"cores": "2"}, "suites": suites}


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (operator("a", "float32"), "native"),
        (operator("a", "float32", backward=answer("portable", "host")), "host"),
        (operator("a", "float32", forward=answer()), "no launch"),
        (operator("a", "float32", forward=answer("falls back")), "falls back"),
        (operator("a", "float32", forward=answer("falls back", declined={"aten::a": "takes f64"})), "declined"),
        (operator("a", "float32", status="differs"), "wrong"),
        (operator("a", "float32", status="crashed"), "crashed"),
        (operator("a", "float32", status="skipped"), "skipped"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_word_says_how_an_operator_was_computed(row: dict[str, Any], word: str) -> None:
    assert how(row) == word
    assert word in HOW


def test_the_page_shows_all_suites_and_nothing_of_the_network() -> None:
    page = as_html(tables_of(report(), None))
    for text in ("it is &lt;aligned&gt;", "mydev.exp", "3/5", "aten::sort", "takes f64", "1 != 2", "chip", "tiny"):
        assert text in page
    assert all(meaning.replace("'", "&#x27;") in page for meaning in MEANING.values())
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert failed(report())


def test_the_reason_of_a_fallback_is_that_of_its_operator() -> None:
    data = report()
    fell = answer("falls back", fallbacks=("aten::add", "aten::sum"), declined={"aten::add": "mydev.add: takes f32"})
    data["suites"]["operators"]["operators"] = [operator("add", "float64", forward=fell)]
    text = as_markdown(tables_of(data, None))
    assert "| aten::add | 1 | mydev.add: takes f32 |" in text
    assert "| aten::sum | 1 | no kernel has this operator |" in text


def test_markdown_has_the_same_tables() -> None:
    text = as_markdown(tables_of(report(), None))
    assert "| exp | native | wrong |" in text
    assert "| operators | exp float64 | wrong | forward: 1 != 2 |" in text
    assert "| tiny | aten::sort | float32[8] | 2 | declined | takes f64 |" in text


def test_two_runs_are_compared() -> None:
    now = copy.deepcopy(report())
    rows = now["suites"]["operators"]["operators"]
    rows[1] = operator("exp", "float64")
    rows[0] = operator("exp", "float32", forward=answer("falls back"))
    rows.append(operator("new", "float32"))
    changes = next(table for table in tables_of(now, report()) if table.title == "Changes")
    shown = {str(row[1]): [getattr(cell, "text", cell) for cell in row[2:]] for row in changes.rows}
    assert shown == {"exp float32": ["native", "falls back", "worse"], "exp float64": ["wrong", "native", "better"]}
    assert "1 only in this one, 0 only in the earlier one, 2 changed." in changes.text


# --- the command ------------------------------------------------------------------------------------------------------


def test_cases_of_the_driver_alone_need_no_torch(conform: Cli, tmp_path: Path) -> None:
    code, out, err = conform("--driver", "host", "--suites", "driver", "--share", "0/12", "--html", str(tmp_path))
    assert (code, out) == (0, "")
    assert "driver: done in " in err
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["suites"]["driver"]["failed"] == 0
    assert data["suites"]["driver"]["passed"] > 3
    again = conform("--from", str(tmp_path / "report.json"), "--compare", str(tmp_path / "report.json"), "--markdown")
    assert again[0] == 0
    assert "0 only in the earlier one, 0 changed." in again[1]


@pytest.mark.slow
def test_all_suites_of_a_driver_with_few_kernels(conform: Cli) -> None:
    few = ("add", "sort", "-j", "1", "--dtypes", "float32", "--share", "0/4", "--json")
    code, out, err = conform("--driver", f"{DRIVERS}/partial_driver.so", *few)
    assert code == 0, err
    suites = json.loads(out)["suites"]
    (kernel,) = suites["kernels"]["sources"]["driver"]["kernels"]
    assert kernel["kernel"] == "mydev.add"
    assert sum(counts["passed"] + counts["declined"] for counts in kernel["dtypes"].values()) > 0
    assert [row["operator"] for row in suites["operators"]["operators"]] == ["add"]
    (model,) = suites["models"]["models"]
    ways = {way for call in model["operators"] for way in call["ways"]}
    assert model["status"] == "passed"
    assert "native" in ways


def test_what_is_no_report_is_refused(conform: Cli, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    code, _, err = conform("--from", str(tmp_path / "other.json"))
    assert code == 2
    assert "other.json is no report of 'mydev conform report' in format 1" in err
    assert conform("--compare", str(tmp_path / "nowhere.json"))[0] == 2
    assert "choose from driver,kernels,operators,models" in conform("--suites", "kernel")[2]


# --- a browser --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_browser_shows_the_page(tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium; make test-browser installs it")
    page = tmp_path / "index.html"
    text = as_html(tables_of(report(), None))
    # The script of the page has run when it sorts: by the first column of the last table, downwards.
    click = "<script>[...document.querySelectorAll('th')].pop().click(); document.title += ': sorted';</script>"
    page.write_text(text.replace("</body>", f"{click}</body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=3000", "--dump-dom"]
    command = [browser, *options, *offline, page.as_uri()]
    shown = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert "<title>Conformance: sorted</title>" in shown.stdout, shown.stderr[-2000:]
    assert 'data-down="1"' in shown.stdout
