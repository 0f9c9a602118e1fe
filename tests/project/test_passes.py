"""Which tests the passes of `make check` ask, and that none runs twice on the same tree."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support import selection
from support.checkout import ROOT


class Item:
    """The part of a pytest.Item that the selection reads."""

    def __init__(self, folder: str, file: str, case: int) -> None:
        self.path = Path("tests", folder, file)
        self.nodeid = f"{self.path}::test_something[{case}]"
        self.is_slow = case % 5 == 0

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == "slow" and self.is_slow else None


class Config:
    def __init__(self, part: str = "all", shard: int | None = None) -> None:
        self.options = {"part": part, "shard": shard}
        self.hook = self

    def getoption(self, name: str) -> Any:
        return self.options[name]

    def pytest_deselected(self, items: list[Item]) -> None:
        pass


ITEMS = [
    Item(folder, file, case) for folder in ("ops", "pjrt") for file in ("test_a.py", "test_b.py") for case in range(60)
]


def selected(items: list[Item], *options: Any) -> set[str]:
    kept = list(items)
    selection.pytest_collection_modifyitems(Config(*options), kept)  # type: ignore[arg-type]
    return {item.nodeid for item in kept}


def test_quick_and_rest_are_everything_and_share_nothing() -> None:
    quick, rest = selected(ITEMS, "quick"), selected(ITEMS, "rest")
    assert quick | rest == {item.nodeid for item in ITEMS}
    assert not quick & rest


def test_quick_is_a_small_part_and_has_each_file_but_nothing_slow() -> None:
    quick = selected(ITEMS, "quick")
    assert 0.05 * len(ITEMS) < len(quick) < 0.2 * len(ITEMS)
    assert not quick & {item.nodeid for item in ITEMS if item.is_slow}
    assert {name.split("::")[0] for name in quick} == {str(item.path) for item in ITEMS}


def test_shards_are_everything_and_share_nothing() -> None:
    shards = [selected(ITEMS, "all", shard) for shard in range(3, 3 + selection.SLOW_SHARDS)]
    assert set.union(*shards) == {item.nodeid for item in ITEMS}
    asked = Counter(name for shard in shards for name in shard)
    assert all(asked[item.nodeid] == (1 if item.is_slow else 3) for item in ITEMS)


# --- tools/passes.py --------------------------------------------------------------------------------------------------


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """tools/passes.py in a repository of its own, whose passes leave a line in the file `ran`, which git ignores."""
    spec = importlib.util.spec_from_file_location("passes", ROOT / "tools" / "passes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "passes", module)
    spec.loader.exec_module(module)
    (tmp_path / "build").mkdir()
    (tmp_path / ".gitignore").write_text("build\nran\n")
    (tmp_path / "source").write_text("1")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "RECORD", tmp_path / "build" / "passes.json")
    monkeypatch.setattr(
        module,
        "PASSES",
        (
            module.Pass("lint", "echo lint >>ran; test ! -e broken"),
            module.Pass("tests", "echo tests >>ran", in_test=True),
        ),
    )
    return module


def run(passes: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, list[str]]:
    """The exit status, and the passes that ran."""
    ran = passes.ROOT / "ran"
    ran.write_text("")
    monkeypatch.setattr(sys, "argv", ["passes.py", *arguments])
    return passes.main(), ran.read_text().split()


def test_check_does_not_repeat_what_test_has_run(passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(passes, monkeypatch, "test") == (0, ["tests"])
    assert run(passes, monkeypatch, "check") == (0, ["lint"])
    assert run(passes, monkeypatch, "check") == (0, [])


def test_a_changed_file_has_all_passes_run_again(passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(passes, monkeypatch, "check")
    (passes.ROOT / "source").write_text("2")
    assert run(passes, monkeypatch, "check") == (0, ["lint", "tests"])


def test_a_failed_pass_ends_the_run_and_is_run_again(passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (passes.ROOT / "broken").write_text("")
    assert run(passes, monkeypatch, "check") == (1, ["lint"])
    assert run(passes, monkeypatch, "check", "--keep-going") == (1, ["lint", "tests"])


def test_a_pass_of_every_second_commit_asks_each_tenth(passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def tenths(of: int) -> set[int]:
        asked = set()
        for commits in range(0, 20, of):
            monkeypatch.setattr(passes, "_commits", lambda commits=commits: commits)
            command = passes._command(passes.Pass("tests", "{shard}", shard=of - 1, of=of), long=False)
            asked.add(int(command.removeprefix("--shard=")) % 10)
        return asked

    assert tenths(1) == tenths(2) == set(range(10))
