"""The ledger: what came of each test, file by file, as JSON; and what is better and worse than in an earlier one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydev.cli.conform.suite import ConformError

FORMAT = 1
STATUSES = ("passed", "failed", "crashed", "timed out", "failed on the CPU too", "skipped")
FAILURES = ("failed", "crashed", "timed out")
SCORED = ("passed", *FAILURES)  #: what the device answers for

Files = dict[str, dict[str, "Row"]]  #: rows by the names of tests, by files


@dataclass(frozen=True)
class Row:
    """The outcome of a test."""

    status: str
    detail: str = ""  #: what was wrong, or why it was skipped
    cpu: str = ""  #: what came of it on the CPU, which is asked where the device fails
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The fields that say something."""
        fields = {"status": self.status, "detail": self.detail, "cpu": self.cpu, "seconds": round(self.seconds, 3)}
        return {name: value for name, value in fields.items() if value != ""}


def counts(files: Files) -> dict[str, int]:
    """How many tests ended in each way."""
    found = Counter(row.status for rows in files.values() for row in rows.values())
    return {status: found[status] for status in STATUSES}


def to_dict(about: Mapping[str, Any], files: Files) -> dict[str, Any]:
    """The ledger of a run."""
    rows = {file: {test: row.to_dict() for test, row in of_file.items()} for file, of_file in files.items()}
    return {"suite": "upstream", "format": FORMAT, **about, "summary": counts(files), "files": rows}


def write(path: str, ledger: Mapping[str, Any]) -> None:
    """Raises ConformError where it cannot be written."""
    try:
        Path(path).write_text(json.dumps(ledger, indent=1) + "\n")
    except OSError as error:
        raise ConformError(f"the ledger cannot be written: {error}") from None


def read(path: str) -> Files:
    """The rows of an earlier run. Raises ConformError for a file that is no ledger."""
    try:
        data = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ConformError(f"{path} cannot be read as a ledger: {error}") from None
    if not isinstance(data, dict) or (data.get("suite"), data.get("format")) != ("upstream", FORMAT):
        raise ConformError(f"{path} is no ledger of 'mydev conform upstream' in format {FORMAT}; make it anew")
    return {file: {test: Row(**row) for test, row in rows.items()} for file, rows in data["files"].items()}


@dataclass(frozen=True)
class Comparison:
    """The tests that end otherwise than in an earlier run, each as "file test: before, now"."""

    better: Sequence[str]  #: they pass, and did not
    worse: Sequence[str]  #: they passed and do not, or fail and were not there


def compare(before: Files, now: Files) -> Comparison:
    """Compares what both runs asked, and what fails that the earlier one did not ask."""
    better: list[str] = []
    worse: list[str] = []
    for file, test, row in _rows(now):
        old = before.get(file, {}).get(test)
        text = f"{file} {test}: {old.status if old else 'not there'}, now {row.status}"
        if old is None:
            worse += [text] if row.status in FAILURES else []
        elif row.status == "passed" and old.status in (*FAILURES, "skipped"):
            better.append(text)
        elif old.status == "passed" and row.status in (*FAILURES, "skipped"):
            worse.append(text)
    return Comparison(better, worse)


def _rows(files: Files) -> Iterator[tuple[str, str, Row]]:
    for file, rows in files.items():
        for test, row in rows.items():
            yield file, test, row
