"""``conform upstream``: the tests of PyTorch or JAX themselves, from a checkout of theirs, on the device.

Policy. This process loads no framework and no driver. Lines come file by file, in the order of their names, and the
ledger is written after each. Exit code: 0 where the device fails no test that passes on the CPU, 1 where it does, 2
where nothing could be run. With --compare, 1 where a test is worse than in the earlier ledger, and 0 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from mydev.cli import added
from mydev.cli.arguments import add_suite_options
from mydev.cli.conform.suite import ConformError, chosen_driver
from mydev.cli.conform.upstream import jax_tests, ledger
from mydev.cli.conform.upstream.checkout import JAX, PYTORCH, Checkout
from mydev.cli.conform.upstream.ledger import FAILURES, STATUSES, Files, Row
from mydev.cli.conform.upstream.suite import Choice, Sides, Suite
from mydev.cli.output import console, print_json
from mydev.cli.workers import CannotStart
from mydev.drivers import VARIABLE
from mydev.wording import counted

_TIMEOUT = 120.0  # seconds for a test
_SHOWN = 10  # failures that are printed of a file
_REASONS = 5  # that are printed at the end
_REASON_WIDTH = 100


# --- what to start ----------------------------------------------------------------------------------------------------


def _sides(options: argparse.Namespace, device_name: str) -> Sides:
    """The processes of both sides. Raises Unavailable where torch_mydev is not installed, and PyTorch is asked for."""
    driver = {VARIABLE: options.driver} if options.driver else {}
    if options.jax:
        platforms = {"JAX_PLATFORMS": f"{device_name},cpu"}
        return Sides((sys.executable, str(jax_tests.__file__)), {**driver, **platforms}, {"JAX_PLATFORMS": "cpu"})
    program = (sys.executable, added.load("conform.upstream"))
    only, brief = "PYTORCH_TESTING_DEVICE_ONLY_FOR", {"PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
    cpu = {**brief, only: "cpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return Sides(program, {**brief, **driver, only: "privateuse1"}, cpu)


# --- report -----------------------------------------------------------------------------------------------------------


def _print_rows(name: str, rows: dict[str, Row], width: int) -> None:
    """Prints a line for a file, and its first failures."""
    found = ledger.counts({name: rows})
    out = console()
    counted_ = "".join(f"{found[status]:>{len(status) + 2}}" for status in STATUSES)
    failed = [(test, row) for test, row in rows.items() if row.status in FAILURES]
    out.print(Text(f"{name:<{width}}"), Text(counted_, "red" if failed else "green"), sep="")
    for test, row in failed[:_SHOWN]:
        out.print(Text(f"    -> {test} {row.status}: {row.detail}"))
    if len(failed) > _SHOWN:
        out.print(Text(f"    -> and {len(failed) - _SHOWN} more; --ledger has all"))


def _print_summary(files: Files, without: int, seconds: float) -> None:
    found = ledger.counts(files)
    parts = ", ".join(f"{count} {status}" for status, count in found.items() if count)
    tests = counted(sum(found.values()), "test")
    print(f"\n{tests} in {counted(len(files), 'file')}: {parts or 'none was run'} ({seconds:.0f} s)")
    if without:
        print(f"{counted(without, 'file')} without such a test for the device")
    scored = sum(found[status] for status in ledger.SCORED)
    if scored:
        print(f"score: {found['passed']} of {scored} that are not skipped and do not fail on the CPU")
    for status in ("failed", "skipped"):
        reasons = Counter(row.detail for rows in files.values() for row in rows.values() if row.status == status)
        for reason, count in reasons.most_common(_REASONS):
            print(f"{count} {status}: {reason[:_REASON_WIDTH]}")


def _print_comparison(comparison: ledger.Comparison, earlier: str) -> None:
    for word, lines in (("better", comparison.better), ("worse", comparison.worse)):
        print(f"\n{counted(len(lines), 'test')} {word} than in {earlier}{':' if lines else ''}")
        for line in lines:
            print(f"    {line}")


# --- command ----------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mydev conform upstream",
        description="Runs the tests of PyTorch or JAX, from a checkout, on the device, and on the CPU those that fail.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--pytorch", metavar="DIR", help="a checkout of PyTorch, best of the version that is installed")
    source.add_argument("--jax", metavar="DIR", help="a checkout of JAX, likewise")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="part of the names of files of tests, or a form with * and ?; else all"
    )
    parser.add_argument(
        "--filter", action="append", default=[], metavar="NAME", help="likewise, of Class.test; may be given again"
    )
    parser.add_argument("--ledger", metavar="FILE", help="write what came of each test there, as JSON")
    parser.add_argument("--compare", metavar="FILE", help="the ledger of an earlier run, to be compared with")
    add_suite_options(parser, "test", _TIMEOUT, "each file's tests", jobs=True)
    return parser


def _results(suite: Suite, files: Sequence[str], options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Row]]]:
    """The files that have rows, with a line for each where people read it."""
    width = max(map(len, files))
    if not options.json:
        header = "".join(f"{status:>{len(status) + 2}}" for status in STATUSES)
        console().print(Text(f"{'':<{width}}{header}", "bold"))
    for name, rows in suite.run(files, Choice(options.filter, options.share)):
        if rows:
            if not options.json:
                _print_rows(name, rows, width)
            yield name, rows


def _run(suite: Suite, checkout: Checkout, files: Sequence[str], options: argparse.Namespace, driver: str) -> int:
    earlier = ledger.read(options.compare) if options.compare else None
    about: dict[str, Any] = {"framework": checkout.layout.framework, **suite.about(), "driver": driver}
    about |= {"tests_of": checkout.version(), "share": options.share}
    if about["tests_of"] and not about["version"].startswith(f"{about['tests_of']}."):
        text = f"the tests are of {about['tests_of']}, and {about['framework']} is {about['version']}"
        print(f"note: {text}: tests of what it has not fail on the CPU too", file=sys.stderr)
    if not options.json:
        print(f"{about['framework']} {about['version']} on {about['device']}, {VARIABLE}={driver}\n")
    begin = time.monotonic()
    done: Files = {}
    for name, rows in _results(suite, files, options):
        done[name] = rows
        if options.ledger:
            ledger.write(options.ledger, ledger.to_dict(about, done))
    if options.json:
        print_json(ledger.to_dict(about, done))
    else:
        _print_summary(done, len(files) - len(done), time.monotonic() - begin)
    if earlier is None:
        return int(any(ledger.counts(done)[status] for status in FAILURES))
    comparison = ledger.compare(earlier, done)
    if not options.json:
        _print_comparison(comparison, options.compare)
    return int(bool(comparison.worse))


def run(arguments: Sequence[str]) -> int:
    """The suite; returns the exit code."""
    options = _parser().parse_intermixed_args(arguments)
    checkout = Checkout(JAX, Path(options.jax)) if options.jax else Checkout(PYTORCH, Path(options.pytorch))
    try:
        driver, choice = chosen_driver(options.driver)
        files = checkout.files(options.files)
        suite = Suite(checkout.tests, _sides(options, choice.device_name), options.jobs, options.timeout)
        return _run(suite, checkout, files, options, driver)
    except (ConformError, CannotStart, added.Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
