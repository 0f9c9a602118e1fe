"""``conform kernels``: whether each kernel that a driver offers does what its contract says.

Each kernel is tried in a process of its own. Text is for people, a line for each kernel as it ends; --json is for
programs. Exit code: 0 no kernel is wrong, 1 one is, or there is none to try, 2 the command line cannot be understood.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from mydev.cli.arguments import add_suite_options
from mydev.cli.conform.suite import Case, ConformError, Result, chosen_driver, list_cases, run_cases, select
from mydev.cli.output import console, print_json
from mydev.drivers import VARIABLE
from mydev.wording import counted

_LIBRARIES = "MYDEV_CUSTOM_CALLS"
_TIMEOUT = 60.0  # seconds for a kernel, of which some have thousands of cases
_MARKS = {"passed": ("passed", "green"), "failed": ("WRONG", "bold red"), "skipped": ("skipped", "yellow")}
_COUNTS = ("passed", "declined", "wrong", "not_compared")
_OFFERED = "offered"  # the case that tells which kernels there are


@dataclass(frozen=True)
class _Row:
    """The outcome of one kernel."""

    kernel: str
    status: str  #: passed, failed or skipped
    messages: list[str]  #: what was wrong; or the reason why it was skipped
    counts: dict[str, int]  #: of cases
    declined: list[str]  #: why, each with the number of cases, the most frequent first
    not_compared: list[str]  #: likewise
    dtypes: dict[str, dict[str, int]]  #: the counts by the dtype of the contract's first variable
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        reasons = {"reasons_declined": self.declined, "reasons_not_compared": self.not_compared}
        values = {"kernel": self.kernel, "status": self.status, "messages": self.messages}
        return {**values, **self.counts, **reasons, "dtypes": self.dtypes, "seconds": self.seconds}


def _row(result: Result) -> _Row:
    reported = result.reported
    messages = list(result.messages)
    if result.status == "failed" and not reported and result.place:
        messages.insert(0, f"{result.place}: it came to a bad end")
    return _Row(
        result.case.name,
        result.status,
        messages,
        {name: int(reported.get(name, 0)) for name in _COUNTS},
        reported.get("reasons_declined", []),
        reported.get("reasons_not_compared", []),
        dict(map(_counts_of_dtype, reported.get("by_dtype", []))),
        result.seconds,
    )


def _counts_of_dtype(text: str) -> tuple[str, dict[str, int]]:
    """The counts of "f32 10 54 0 0", in the order of _COUNTS."""
    dtype, *counts = text.split()
    return dtype, dict(zip(_COUNTS, map(int, counts), strict=True))


# --- report -----------------------------------------------------------------------------------------------------------


def _print_rows(results: Iterable[Result], width: int, reasons: bool) -> list[_Row]:
    """Prints a line for each kernel as it comes, with what was wrong, and with ``reasons`` why cases were declined."""
    out = console()
    out.print(Text(f"{'kernel':<{width}}  {'':<8} {'passed':>7} {'declined':>9} {'wrong':>6}", "bold"))
    rows = []
    for result in results:
        row = _row(result)
        rows.append(row)
        mark, style = _MARKS[row.status]
        counts = f"{row.counts['passed']:>7} {row.counts['declined']:>9} {row.counts['wrong']:>6}"
        remark = "; ".join(row.messages) if row.status == "skipped" else ""
        out.print(
            Text(f"{row.kernel:<{width}}  "), Text(f"{mark:<8}", style), Text(f" {counts}  {remark}".rstrip()), sep=""
        )
        lines = list(row.messages) if row.status == "failed" else []
        lines += [f"not compared: {reason}" for reason in row.not_compared]
        lines += [f"declined: {reason}" for reason in row.declined if reasons]
        for line in lines:
            out.print(Text(f"    -> {line}"))
    return rows


def _totals(rows: Sequence[_Row]) -> dict[str, int]:
    return {name: sum(row.counts[name] for row in rows) for name in _COUNTS}


def _summary(rows: Sequence[_Row]) -> str:
    totals = _totals(rows)
    wrong = [row.kernel for row in rows if row.status == "failed"]
    cases = f"cases: {totals['passed']} passed, {totals['declined']} declined, {totals['wrong']} wrong"
    if totals["not_compared"]:
        cases += f", {totals['not_compared']} not compared"
    verdict = f"{len(wrong)} wrong: {', '.join(wrong)}" if wrong else "none is wrong"
    return f"{counted(len(rows), 'kernel')}, {verdict}\n{cases}, in {sum(row.seconds for row in rows):.1f} s"


def _as_data(driver: str, rows: Sequence[_Row]) -> dict[str, object]:
    statuses = {status: sum(row.status == status for row in rows) for status in _MARKS}
    return {
        "suite": "kernels",
        "driver": driver,
        **statuses,
        "cases": _totals(rows),
        "kernels": [row.to_dict() for row in rows],
    }


# --- command ----------------------------------------------------------------------------------------------------------


def _offered(suite: str, offered: Case, wanted: Sequence[Case], options: argparse.Namespace) -> list[Case]:
    """The kernels that there are, of those that were asked for. Raises ConformError if there is none."""
    result = next(iter(run_cases(suite, [offered], driver=options.driver, timeout=options.timeout)))
    if result.status != "passed":
        text = "; ".join(result.messages)
        if result.status == "skipped" and not options.host:
            text += (
                "; --portable tries those that the device's compiler makes, --host the host's own, which a device runs "
                "whose memory the host reaches"
            )
        raise ConformError(text)
    there = set(result.reported["offered"])
    chosen = [case for case in wanted if case.name in there]
    if not chosen:
        raise ConformError(f"the driver does not offer {', '.join(case.name for case in wanted)}")
    return chosen


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mydev conform kernels",
        description="Tries whether the kernels that a driver offers do what their contracts say.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of the names of kernels, or a form with * and ?")
    parser.add_argument("--host", action="store_true", help="try the host's kernels, on the driver's device")
    parser.add_argument("--portable", action="store_true", help="try those that the device's compiler makes")
    parser.add_argument(
        "--library", metavar="FILE", help="try the kernels of this library whose signatures are contracts"
    )
    parser.add_argument("--reasons", action="store_true", help="print why cases were declined")
    add_suite_options(parser, "kernel", _TIMEOUT, "the cases")
    return parser.parse_intermixed_args(arguments)


def _cases_of(suite: str, library: str | None) -> dict[str, Case]:
    """The cases by name; with a library, those of its kernels. Raises ConformError."""
    if library is None:
        return {case.name: case for case in list_cases(suite)}
    path = Path(library).resolve()
    if not path.is_file():
        raise ConformError(f"there is no library {path}")
    os.environ[_LIBRARIES] = str(path)
    builtin = "mydev."
    cases = {case.name: case for case in list_cases(suite) if not case.name.startswith(builtin)}
    if cases.keys() == {_OFFERED}:
        raise ConformError(
            f"no kernel of {path} has a contract in its signature; 'mydev kernels check' tells why a library "
            f"does not load"
        )
    return cases


def run(arguments: Sequence[str]) -> int:
    """The suite; returns the exit code."""
    options = _options(arguments)
    suite = "host_kernels" if options.host or options.library else "kernels"
    if options.portable:
        suite = "portable_kernels"
    try:
        cases = _cases_of(suite, options.library)
        offered = cases.pop(_OFFERED)
        advice = "'mydev kernels list --all' names them"
        wanted = select(list(cases.values()), options.names, noun="kernel", advice=advice)
        driver, _ = chosen_driver(options.driver)
    except ConformError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        chosen = _offered(suite, offered, wanted, options)
    except ConformError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    results = run_cases(suite, chosen, driver=options.driver, timeout=options.timeout, share=options.share)
    if options.json:
        rows = [_row(result) for result in results]
        print_json(_as_data(driver, rows))
    else:
        console().print(Text(f"kernels, {VARIABLE}={driver}\n"))
        rows = _print_rows(results, max(len(case.name) for case in chosen), options.reasons)
        console().print(Text("\n" + _summary(rows)))
    return int(any(row.status == "failed" for row in rows))
