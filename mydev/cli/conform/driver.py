"""``conform driver``: whether a driver keeps the promises of its header, case by case, in the order in which one brings
it up.

Text is for people, as the cases end; --json is for programs. Exit code: 0 no case failed, 1 one did, or none could be
run, 2 the command line cannot be understood.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.text import Text

from mydev.cli.arguments import add_suite_options, of_share
from mydev.cli.conform.suite import Case, ConformError, Result, chosen_driver, list_cases, run_cases, select
from mydev.cli.output import console, print_json, print_table
from mydev.drivers import VARIABLE
from mydev.wording import counted

_SUITE = "driver"
_TIMEOUT = 10.0  # seconds for a case; more than it waits by itself for what never comes
_MARKS = {"passed": ("passed", "green"), "failed": ("FAILED", "bold red"), "skipped": ("skipped", "yellow")}


# --- report -----------------------------------------------------------------------------------------------------------


def _print_results(cases: Sequence[Case], results: Iterable[Result]) -> list[Result]:
    """Prints each as it comes: what holds; why not; why it was not tried."""
    out = console()
    width = max(len(case.name) for case in cases)
    group = ""
    printed = []
    for result in results:
        if result.case.group != group:
            group = result.case.group
            out.print(Text(group, "bold"))
        mark, style = _MARKS[result.status]
        text = "; ".join(result.messages) if result.status == "skipped" else result.case.promise
        out.print(Text(f"  {mark:<8}", style), Text(f"{result.case.name:<{width}}  {text}"), sep="")
        if result.status == "failed":
            for message in result.messages:
                out.print(Text(f"{'':10}-> {message}"))
        printed.append(result)
    return printed


def _counts(results: Sequence[Result]) -> dict[str, int]:
    return {status: sum(result.status == status for result in results) for status in _MARKS}


def _summary(results: Sequence[Result], untried: int) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in _counts(results).items())
    text = f"{counted(len(results), 'case')}: {counts}, in {sum(result.seconds for result in results):.1f} s"
    if untried:
        text += f"; {untried} not tried, since {results[-1].case.name} failed"
    first = next((result.case.name for result in results if result.status == "failed"), None)
    return text if first is None else f"{text}\nbegin with {first}: later cases build on earlier ones"


def _as_data(driver: str, results: Sequence[Result], untried: int) -> dict[str, object]:
    rows = [
        {**asdict(result.case), "status": result.status, "messages": result.messages, "seconds": result.seconds}
        for result in results
    ]
    return {"suite": _SUITE, "driver": driver, **_counts(results), "not_tried": untried, "cases": rows}


# --- command ----------------------------------------------------------------------------------------------------------


def _list(cases: Sequence[Case], json: bool) -> int:
    if json:
        print_json([asdict(case) for case in cases])
    else:
        print_table(("group", "case", "promise"), ((case.group, case.name, case.promise) for case in cases))
    return 0


def _run(options: argparse.Namespace, cases: Sequence[Case], driver: str) -> int:
    results = run_cases(_SUITE, cases, driver=options.driver, timeout=options.timeout)
    if options.json:
        done = list(results)
        print_json(_as_data(driver, done, len(cases) - len(done)))
    else:
        console().print(Text(f"suite {_SUITE}, {VARIABLE}={driver}\n"))
        done = _print_results(cases, results)
        console().print(Text("\n" + _summary(done, len(cases) - len(done))))
    return int(any(result.status == "failed" for result in done))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    description = "Tries the promises of mydev/driver.h, of memory, copies, streams, events and launches."
    parser = argparse.ArgumentParser(prog=f"mydev conform {_SUITE}", description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of the names of cases, or a form with * and ?")
    parser.add_argument("--list", action="store_true", help="name the cases and their promises, and run none")
    add_suite_options(parser, "case", _TIMEOUT, "the cases")
    return parser.parse_intermixed_args(arguments)


def run(arguments: Sequence[str]) -> int:
    """The suite; returns the exit code."""
    options = _options(arguments)
    try:
        cases = list_cases(_SUITE)
    except ConformError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    try:
        cases = of_share(select(cases, options.names, noun="case", advice="--list names them"), options.share)
        driver, _ = chosen_driver(options.driver)
    except ConformError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return _list(cases, options.json) if options.list else _run(options, cases, driver)
