"""``doctor``: explains the installation, above all one that does not work.

Policy. Nothing is loaded into this process, neither torch nor the native part: files and metadata are read here, and
what has to be tried is tried in a child process, so that a crash there is one more finding.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from mydev import COMMAND, __version__
from mydev.cli import added
from mydev.cli.conform.suite import ConformError, list_cases, run_cases
from mydev.cli.finding import Finding, describe
from mydev.drivers import chosen
from mydev.libraries import LIBRARIES, build_info
from mydev.wording import counted

_PACKAGE_DIR = Path(__file__).parent.parent
_MINOR_VERSION = __version__.rpartition(".")[0]  # ends the names of libraries that others are linked with
_NATIVE_FILES = (
    f"libmydev_runtime.so.{_MINOR_VERSION}",
    "libmydev_host_driver.so",
    f"libmydev_kernels.so.{_MINOR_VERSION}",
    "libmydev_host_kernels.so",
    "libmydev_custom_call_status.so",
    "mydev_conform",
    "libdnnl.so.3",
)
_PREFIX = "MYDEV_"
_TIMEOUT = 60.0  # seconds for a promise of the driver


def examine() -> list[Finding]:
    """Everything there is to say, in the order in which things depend on each other."""
    findings = [*_examine_python(), *_examine_files()]
    torch_part = None
    try:
        torch_part = added.load("doctor")()
        findings += torch_part.examine()
    except added.NotInstalled:
        text = "is not installed, so PyTorch does not know the device; JAX and the suites do without"
        findings.append(Finding("note", added.PACKAGE, text, added.INSTALL))
    except added.Unavailable as error:
        findings.append(Finding("problem", added.PACKAGE, str(error)))
    findings += _examine_choice()
    if any(finding.state == "problem" for finding in findings):
        findings += _examine_environment_names()
        findings.append(Finding("note", "device", "not tried, because of the problems above"))
    else:
        findings += torch_part.try_device() if torch_part else [*_examine_environment_names(), *_try_driver()]
    return findings


# --- read -------------------------------------------------------------------------------------------------------------


def _examine_python() -> Iterator[Finding]:
    yield Finding("ok", "python", f"{platform.python_version()} at {sys.executable}")
    yield Finding("ok", COMMAND, f"{__version__} at {_PACKAGE_DIR}")


def _examine_files() -> Iterator[Finding]:
    try:
        info = build_info()
    except RuntimeError as error:
        yield Finding("problem", "libraries", str(error))
        return
    missing = [name for name in _NATIVE_FILES if not (LIBRARIES / name).exists()]
    if missing:
        text = f"{LIBRARIES} lacks {', '.join(missing)}"
        yield Finding("problem", "libraries", text, "make build, or install the package again")
    else:
        text = f"built with {info['compiler']} for {info['processor']}, kernels for {info['isa_variants']}"
        yield Finding("ok", "libraries", text.replace(";", ", "))


def _examine_choice() -> Iterator[Finding]:
    choice = chosen()
    if choice.problem:
        yield Finding("problem", "driver", choice.problem, "see docs/driver.md")
    elif choice.package:
        text = f"of the device '{choice.device_name}', {choice.display_name}, by {choice.package}: {choice.driver}"
        yield Finding("ok", "driver", text)


def _examine_environment_names() -> Iterator[Finding]:
    for name in sorted(name for name in os.environ if name.startswith(_PREFIX)):
        yield Finding("note", "environment", f"{name}={os.environ[name]}")


# --- try --------------------------------------------------------------------------------------------------------------


def _try_driver() -> Iterator[Finding]:
    """Without PyTorch: the promises on which all others rest, in a process of their own."""
    suite = "driver"
    try:
        first = [case for case in list_cases(suite) if case.prerequisite]
        for result in run_cases(suite, first, driver=None, timeout=_TIMEOUT):
            held = result.status == "passed"
            text = result.case.promise if held else "; ".join(result.messages)
            yield Finding(
                "ok" if held else "problem", suite, text, "" if held else "see MYDEV_DRIVER in docs/driver.md"
            )
    except ConformError as error:
        yield Finding("problem", suite, str(error))


# --- report -----------------------------------------------------------------------------------------------------------


def report(findings: Sequence[Finding]) -> str:
    """The findings as text, the verdict last."""
    problems = sum(finding.state == "problem" for finding in findings)
    verdict = f"{counted(problems, 'problem')} found" if problems else "the device works"
    return "\n".join([*describe(findings), verdict])


def run(arguments: Sequence[str]) -> int:
    """The subcommand: prints the report; 0 when the device works, else 1."""
    parser = argparse.ArgumentParser(prog="mydev doctor", description="Explains this installation.")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(arguments)
    findings = examine()
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print(report(findings))
    return int(any(finding.state == "problem" for finding in findings))
