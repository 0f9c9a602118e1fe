"""``conform operators``: PyTorch's operator database on the device, a line for each operator.

Policy. This process loads no torch and no driver: operators run in worker processes. Lines come in the order of names,
as soon as they are known; with --json one object comes at the end. Exit code: 0 where every operator does what the
CPU's does or is known to be unable to, 1 where one does not, 2 where nothing could be run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from mydev.cli.arguments import add_suite_options, of_share
from mydev.cli.output import console, print_json
from mydev.cli.workers import CannotStart
from torch_mydev.cli.conform.operator_suite import Plan, Suite
from torch_mydev.conform.operators.row import FAILURES, STATUSES, Row, Status

_STYLES: dict[Status, str] = {"passed": "green", "skipped": "yellow"}
_OPERATOR_WIDTH, _DTYPE_WIDTH, _STATUS_WIDTH = 50, 10, 9
_TIMEOUT = 60.0  # seconds for an operator
_MOST_FALLBACKS = 10  # named in the summary


def run(arguments: Sequence[str]) -> int:
    """The suite: prints what came of it; returns the exit code."""
    options = _parser().parse_intermixed_args(arguments)
    environment = {**os.environ, **({"MYDEV_DRIVER": options.driver} if options.driver else {})}
    suite = Suite(environment, options.jobs, options.timeout)
    try:
        plan = suite.plan(options.names, options.dtypes)
        problem = _problem(plan)
        if problem:
            print(f"error: {problem}", file=sys.stderr)
            return 2
        plan = replace(plan, tasks=of_share(plan.tasks, options.share))
        return _report(suite, plan, options.json)
    except CannotStart as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        suite.stop()


def _problem(plan: Plan) -> str:
    """Why there is nothing to run, or something less than was asked for; "" if there is not."""
    if plan.unknown:
        names = "names are those of PyTorch's operator database, such as add or nn.functional.*"
        return f"no operator is called {', '.join(plan.unknown)}; {names}"
    return "" if plan.tasks else "none of the operators has such a dtype"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mydev conform operators",
        description="Runs the operators of PyTorch's own database on the device and on the CPU, forward and backward.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators, or patterns of them; all without one")
    parser.add_argument(
        "--dtypes", type=_names, default=[], metavar="DTYPE,…", help="in place of float32: float16,int64, …"
    )
    add_suite_options(parser, "operator", _TIMEOUT, "the operators and dtypes", jobs=True)
    return parser


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _report(suite: Suite, plan: Plan, as_json: bool) -> int:
    out = console()
    begin = time.monotonic()
    rows = []
    for row in suite.run(plan):
        rows.append(row)
        if not as_json:
            out.print(_line(row), soft_wrap=True)
    seconds = time.monotonic() - begin
    counts = Counter(row.status for row in rows)
    if as_json:
        summary = {status: counts[status] for status in STATUSES}
        value = {"device": plan.device, "driver": plan.driver, "seconds": seconds, "summary": summary}
        print_json({**value, "operators": [row.to_dict() for row in rows]})
    else:
        out.print(Text(_summary(plan, rows, seconds)), soft_wrap=True)
    return int(any(counts[status] for status in FAILURES))


def _line(row: Row) -> Text:
    details = [f"{direction}: {answer.detail}" for direction, answer in row.answers.items() if answer.detail]
    if row.fell_back:
        details.append(_fallbacks(row))
    name = Text(f"{row.operator:<{_OPERATOR_WIDTH}} {row.dtype:<{_DTYPE_WIDTH}} ")
    return name.append(f"{row.status:<{_STATUS_WIDTH}}", _STYLES.get(row.status, "bold red")).append(
        f" {'; '.join(details)}".rstrip()
    )


def _fallbacks(row: Row) -> str:
    """Which operators fell back; of backward those that did not do so before."""
    forward = row.forward.fallbacks
    backward = [op for op in (row.backward.fallbacks if row.backward else ()) if op not in forward]
    parts = [f"fell back: {', '.join(forward)}"] if forward else []
    if backward:
        parts.append(f"fell back in backward: {', '.join(backward)}")
    return "; ".join(parts)


def _summary(plan: Plan, rows: Sequence[Row], seconds: float) -> str:
    counts = Counter(row.status for row in rows)
    what = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    fell_back = f"{sum(row.fell_back for row in rows)} fell back to the CPU's kernels"
    where = f"on device '{plan.device}' of driver '{plan.driver}'"
    lines = ["", f"{len(rows)} {where}: {what}; {fell_back} ({seconds:.0f} s)"]
    fallbacks = Counter(op for row in rows for op in {op for a in row.answers.values() for op in a.fallbacks})
    if fallbacks:
        most = ", ".join(f"{op} in {count}" for op, count in fallbacks.most_common(_MOST_FALLBACKS))
        lines.append(f"fell back most often: {most}")
    return "\n".join(lines)
