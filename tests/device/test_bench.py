"""``mydev bench``: its rows compute the same in both places, and its table, page and JSON have them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_mydev.cli.bench.command import run
from torch_mydev.cli.bench.limits import Limits
from torch_mydev.cli.bench.page import bench_page
from torch_mydev.cli.bench.timing import Row
from torch_mydev.cli.bench.work import Lane, Work, all_work

#: Groups of few bytes; the others are these with larger operands, or train.
SMALL = ("dispatch", "elementwise, L2", "reductions and norms, L2", "products", "attention", "indexing", "optimizers")
RANDOM = ("dropout", "empty")
ROWS = [
    work
    for work in all_work()
    if work.group.startswith(SMALL) and not work.name.startswith(RANDOM) and "M" not in work.name
]


def test_rows_have_names_of_their_own() -> None:
    names = [f"{work.group}: {work.name}" for work in all_work()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("work", ROWS, ids=lambda work: work.name)
def test_rows_compute_the_same_in_both_places(work: Work, device: torch.device) -> None:
    def result(lane: Lane) -> list[Any]:
        torch.manual_seed(0)
        value = work.make(lane)()
        values = list(value) if isinstance(value, tuple) else [value]
        if work.name.startswith(("sort", "topk")):
            del values[1:]  # the places of equal numbers
        return [value.cpu() if isinstance(value, torch.Tensor) else value for value in values]

    torch.testing.assert_close(
        result(Lane(device.type)), result(Lane("cpu")), rtol=2e-2, atol=2e-2, allow_subclasses=True
    )


def test_table_page_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, figures = tmp_path / "page.html", tmp_path / "figures.json"
    assert run(["dispatch: sum", "--rounds", "1", "--html", str(html), "--json", str(figures)]) == 0
    printed = capsys.readouterr().out
    assert "sum, 16" in printed
    assert "geometric means" in printed
    (row,) = json.loads(figures.read_text())["rows"]
    assert (row["group"], row["name"]) == ("dispatch", "sum, 16")
    assert row["ratio"] == pytest.approx(row["rival_seconds"] / row["device_seconds"])
    assert "sum, 16" in html.read_text()


def test_page_shows_what_rows_take_of_the_limits() -> None:
    work = Work("products", "a <product>", lambda lane: lambda: None, operations=10)
    text = bench_page("t", {"torch": "2"}, [(work, Row(work.name, 2.0, 1.0, 2.0, 1.9))], Limits(1.0, 20.0))
    assert "50 %" in text
    assert "a &lt;product&gt;" in text
    assert "<product>" not in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["no such row"], "no row contains 'no such row'; --list prints all rows"),
        (["dispatch", "--rounds", "0"], "--rounds 0 is less than 1; --list prints all rows"),
    ],
)
def test_refuses_what_it_cannot_run(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"mydev bench: {problem}\n"


@pytest.mark.any_driver
def test_says_that_there_is_no_device(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = "import sys; from torch_mydev.cli.bench.command import run; sys.exit(run(['dispatch: sum']))"
    result = run_python(code, MYDEV_DRIVER="host:devices=0")
    assert result.returncode == 1
    assert result.stderr.endswith("mydev bench: no mydev device: driver 'host:devices=0' finds no hardware\n")


def test_lists_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dispatch", "--list"]) == 0
    assert "dispatch: a + b, 16" in capsys.readouterr().out.splitlines()
