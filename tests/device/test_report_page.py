"""``mydev report --html``: what the page says of a program, and that its size does not grow with the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.checkout import environment
from torch_mydev.device.statistics import CommandRow
from torch_mydev.observe.memory_kinds import KINDS, LiveRange, line_of, live_ranges_of
from torch_mydev.observe.report_page import ProgramReport, program_page
from torch_mydev.observe.timeline import Timeline, make_timeline

pytestmark = pytest.mark.any_driver

_PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512)).to("mydev")
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(512, 512, device="mydev")
for _ in range(4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
torch.linalg.inv(x)
"""


def data_of(page: str, name: str) -> Any:
    found = re.search(rf"<script>const {name} = (.*?);</script>", page)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.slow
def test_the_page_of_a_program(tmp_path: Path) -> None:
    script, target = tmp_path / "train.py", tmp_path / "page.html"
    script.write_text(_PROGRAM)
    command = [sys.executable, "-m", "mydev", "report", "--html", str(target), str(script)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment(MYDEV_DRIVER="host"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    page = target.read_text()
    assert "aten::linalg_inv_ex" in page
    assert "train.py:10 in &lt;module&gt;" in page
    timeline = data_of(page, "timeline")
    assert "mydev.matmul" in " ".join(timeline["names"])
    assert timeline["streams"] == ["mydev:0, stream 0"]
    assert "<p>mydev:0: at most " in page
    (memory,) = data_of(page, "memory")
    weights = 2 * (512 * 512 + 512) * 4
    most = {kind: max(point[1][KINDS.index(kind)] for point in memory["points"]) for kind in KINDS}
    assert weights <= most["parameter"] < 1.1 * weights
    assert weights <= most["gradient"] < 1.1 * weights
    assert 2 * weights <= most["optimizer"] < 2.1 * weights
    assert most["activation"] >= 512 * 512 * 4
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)  # nothing is fetched


# --- time line --------------------------------------------------------------------------------------------------------


def timeline(commands: int, most: int) -> Timeline:
    numbers = array("q")
    for command in range(commands):
        numbers.extend((1_000 * command, 1_000 * command + 900, command % 2, command % 3))
    names = [("launch", "mydev.a"), ("launch", "mydev.b"), ("copy", "copy to the host")]
    return make_timeline([(0, 0), (0, 1)], names, numbers, 0, most)


def test_each_of_few_commands_is_a_bar() -> None:
    line = timeline(10, 100)
    assert line.merged_within == 0
    assert [(bar.begin, bar.end, bar.name) for bar in line.bars[1][:2]] == [(1_000, 1_900, 1), (3_000, 3_900, 0)]


def test_bars_of_many_commands_cover_all_of_them() -> None:
    line = timeline(10_000, 500)
    assert 100 < sum(map(len, line.bars)) <= 500
    assert sum(bar.count for bars in line.bars for bar in bars) == line.commands == 10_000
    for bars in line.bars:
        assert all(a.end <= b.begin for a, b in pairwise(bars))


def test_a_million_commands_make_a_page_of_at_most_10_megabytes() -> None:
    line = timeline(1_000_000, 80_000)
    rows = [CommandRow("launch", "mydev.<a>", 0, 1_000_000, 1.0, 1)]
    page = program_page(ProgramReport("train.py", 1.0, 0, rows, [], [], line, []))
    assert len(page) < 10 << 20
    assert "1,000,000 commands" in page
    assert "bars: those of a stream that begin within" in page
    assert "mydev.&lt;a&gt;" in page


# --- memory -----------------------------------------------------------------------------------------------------------

_PYTHON = [{"name": "main", "filename": "train.py", "line": 1}]
_OPTIMIZER = [{"name": "step", "filename": "/x/torch/optim/adam.py", "line": 1}, *_PYTHON]
_ENGINE = [{"name": "_engine_run_backward", "filename": "/x/torch/autograd/graph.py", "line": 1}, *_PYTHON]


def kinds(*events: tuple[str, int, list[dict[str, Any]]], alive: Any = (), marks: Any = ()) -> dict[int, str]:
    """The kind of the allocation of each size; an event's time is its place."""
    made = [
        {"action": action, "addr": size, "size": size, "time_us": when, "frames": frames}
        for when, (action, size, frames) in enumerate(events)
    ]
    return {one.size: one.kind for one in live_ranges_of(made, alive, marks)}


def test_kinds_follow_from_where_memory_is_made_and_how_long_it_lives() -> None:
    found = kinds(
        ("alloc", 1, _PYTHON),  # data, of both steps
        ("alloc", 2, _PYTHON),
        ("alloc", 3, _PYTHON),
        ("free_requested", 3, []),
        ("alloc", 4, _ENGINE),
        ("free_requested", 4, []),
        ("alloc", 5, _ENGINE),
        ("free_requested", 2, []),
        ("alloc", 6, _OPTIMIZER),
        ("alloc", 7, _OPTIMIZER),
        ("free_requested", 7, []),
        ("free_requested", 5, []),
        ("alloc", 8, _PYTHON),
        ("alloc", 9, _ENGINE),
    )
    activation, temporary = dict.fromkeys((2,), "activation"), dict.fromkeys((3, 4, 7), "temporary")
    assert found == {1: "other", **activation, **temporary, 5: "gradient", 6: "optimizer", 8: "other", 9: "gradient"}


def test_marked_addresses_and_earlier_memory() -> None:
    found = kinds(
        ("alloc", 1, _PYTHON),
        ("free_requested", 9, []),  # from before the history
        alive=[(1, 1), (7, 7)],
        marks=[(0, 1, "parameter"), (1, 7, "parameter")],
    )
    assert found == {1: "parameter", 9: "other", 7: "parameter"}


def test_points_keep_the_peak() -> None:
    ranges = [LiveRange("other", 10 * step, 10 * step + 5, 100 + step) for step in range(5_000)]
    line = line_of(0, ranges, 10_000, True)
    assert len(line.points) <= 1_002
    assert sum(line.peak) == 5_099
    assert max(sum(point[1]) for point in line.points) == 5_099
    assert sum(line.points[-1][1]) == 0
