"""``conform report``: all suites, and small models, as one page to show.

The suites run one after the other as their own commands do, and what they say of themselves with --json is the report's
data. ``--html DIRECTORY`` writes ``index.html``, ``report.json`` and ``report.md`` there; ``--from`` makes the page of
a ``report.json`` again, and ``--compare`` tells what an earlier one had otherwise. Exit code: 0 nothing failed, 1
something did, 2 the command line cannot be understood, or no suite could be run.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mydev.cli.arguments import above_zero, of_share, share
from mydev.cli.child import run_child
from mydev.cli.conform import driver, kernels
from mydev.cli.conform.suite import ConformError, chosen_driver, list_cases
from mydev.drivers import VARIABLE
from torch_mydev import __version__
from torch_mydev.cli.conform import operators
from torch_mydev.cli.conform.report_tables import FORMAT, failed, tables_of
from torch_mydev.cli.conform.report_views import as_html, as_markdown

Data = dict[str, Any]
_DTYPES = "float32,float64,int64"
_MODEL = "from torch_mydev.conform.models import main; main()"
_MODEL_TIMEOUT = 300.0  # seconds, of which most are for the start where the device compiles its kernels


# --- suites -----------------------------------------------------------------------------------------------------------


def _ask(run: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> Data:
    """The JSON that a suite's command prints; where it prints none, the reason."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        run([*arguments, "--json"])
    if not out.getvalue():
        return {"not_run": errors.getvalue().strip().removeprefix("error: ")}
    data: Data = json.loads(out.getvalue())
    return data


def _driver(options: argparse.Namespace) -> Data:
    return _ask(driver.run, [*_common(options), "--share", options.share])


def _kernels(options: argparse.Namespace) -> Data:
    """The driver's own kernels, and those that its compiler makes; the host's where there are neither."""
    names = _kernel_names(options.only)
    if options.only and not names:
        return {"not_run": f"no kernel is called {', '.join(options.only)}"}
    arguments = [*_common(options), "--share", options.share, *names]
    sources: dict[str, list[str]] = {"driver": [], "portable": ["--portable"], "host": ["--host"]}
    found: Data = {}
    for source, option in sources.items():
        if source == "host" and any("kernels" in data for data in found.values()):
            break
        found[source] = _ask(kernels.run, [*arguments, *option])
    offered = {source: data for source, data in found.items() if "kernels" in data}
    return {"sources": offered} if offered else {"not_run": found["driver"]["not_run"]}


def _kernel_names(patterns: Sequence[str]) -> list[str]:
    """The kernels whose names are those of operators that a pattern fits."""
    names = [case.name for case in list_cases("kernels")] if patterns else []
    return [name for name in names if any(fnmatch.fnmatchcase(name, f"mydev.{pattern}") for pattern in patterns)]


def _operators(options: argparse.Namespace) -> Data:
    jobs = ["--jobs", str(int(options.jobs))] if options.jobs else []
    arguments = [*_common(options), "--dtypes", options.dtypes, "--share", options.share, *jobs]
    return _ask(operators.run, [*arguments, *options.only])


def _models(options: argparse.Namespace) -> Data:
    """Each model in a process of its own; ``device`` is what the processes run on."""
    environment = {VARIABLE: options.driver} if options.driver else {}

    def ask(*arguments: str) -> tuple[Data, str]:
        child = run_child([sys.executable, "-c", _MODEL, *arguments], timeout=_MODEL_TIMEOUT, environment=environment)
        last = child.stderr.splitlines()[-1:]
        return (child.objects[-1] if child.objects else {}), ": ".join([child.failure, *last])

    described, why = ask()
    if not described:
        return {"not_run": f"a process that uses the device {why}"}
    found = []
    for name in of_share(described["models"], options.share):
        begin = time.monotonic()
        outcome, why = ask(name)
        outcome = outcome or {"model": name, "status": "crashed", "detail": f"the process {why}", "operators": []}
        found.append({**outcome, "seconds": time.monotonic() - begin})
    return {"device": described["device"], "torch": described["torch"], "models": found}


_SUITES: dict[str, Callable[[argparse.Namespace], Data]] = {
    "driver": _driver,
    "kernels": _kernels,
    "operators": _operators,
    "models": _models,
}


def _common(options: argparse.Namespace) -> list[str]:
    return ["--driver", options.driver] if options.driver else []


# --- versions and machine ---------------------------------------------------------------------------------------------


def _versions() -> dict[str, str]:
    found = {"torch_mydev": __version__, "python": platform.python_version()}
    for package in ("torch", "jax"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _machine() -> dict[str, str]:
    found = {"system": platform.platform(), "processor": platform.machine()}
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found["processor"] = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
    found["cores"] = str(len(os.sched_getaffinity(0)))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {**found, "memory": f"{memory / 2**30:.1f} GiB"}


def _collect(options: argparse.Namespace, driver_name: str) -> Data:
    report: Data = {
        "format": FORMAT,
        "driver": driver_name,
        "when": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "share": options.share,
        "only": options.only,
        "versions": _versions(),
        "machine": _machine(),
        "suites": {},
    }
    for name in options.suites:
        begin = time.monotonic()
        data = {**_SUITES[name](options), "seconds": time.monotonic() - begin}
        report["suites"][name] = data
        text = f"not run: {data['not_run']}" if "not_run" in data else f"done in {data['seconds']:.1f} s"
        print(f"{name}: {text}", file=sys.stderr, flush=True)
    return report


# --- command ----------------------------------------------------------------------------------------------------------


def _suites(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in _SUITES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of suites; choose from {','.join(_SUITES)}")
    return names


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mydev conform report",
        description="Runs all suites, and small models, and makes one page of what came of them.",
    )
    parser.add_argument(
        "only", nargs="*", metavar="NAME", help="operators, or patterns of them, and kernels of these names; else all"
    )
    parser.add_argument("--driver", metavar="DRIVER", help=f"name or path, and options; else {VARIABLE}")
    parser.add_argument("--html", metavar="DIRECTORY", help="write index.html, report.json and report.md there")
    parser.add_argument("--suites", type=_suites, default=list(_SUITES), metavar="SUITE,…", help=",".join(_SUITES))
    parser.add_argument("--dtypes", default=_DTYPES, metavar="DTYPE,…", help="of the operators (%(default)s)")
    parser.add_argument("--share", type=share, default="0/1", metavar="I/N", help="the I-th of N shares of everything")
    parser.add_argument("-j", "--jobs", type=above_zero(int), metavar="N", help="processes that run operators")
    parser.add_argument("--from", dest="source", metavar="FILE", help="run nothing; take this report.json")
    parser.add_argument("--compare", metavar="FILE", help="the report.json of an earlier run, to be compared with")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    return parser.parse_intermixed_args(arguments)


def _read(path: str) -> Data:
    """A report of an earlier run. Raises ConformError for a file that is none."""
    try:
        data = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ConformError(f"{path} cannot be read as a report.json: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConformError(f"{path} is no report of 'mydev conform report' in format {FORMAT}; make it anew")
    return data


def _write(report: Data, earlier: Data | None, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tables = tables_of(report, earlier)
    (directory / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (directory / "report.md").write_text(as_markdown(tables))
    (directory / "index.html").write_text(as_html(tables))
    print(f"wrote {directory / 'index.html'}, report.json and report.md beside it", file=sys.stderr)


def run(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    options = _options(arguments)
    try:
        earlier = _read(options.compare) if options.compare else None
        if options.source:
            report = _read(options.source)
        else:
            name, _ = chosen_driver(options.driver)
            report = _collect(options, name)
    except ConformError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.html:
        _write(report, earlier, Path(options.html))
    if options.json:
        print(json.dumps(report, indent=2))
    elif options.markdown or not options.html:
        print(as_markdown(tables_of(report, earlier)), end="")
    if all("not_run" in data for data in report["suites"].values()):
        return 2
    return int(failed(report))
