"""``conform``: a table of suites, each a module of its own that is imported when it is called for."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mydev._device_name import DEVICE_NAME


@dataclass(frozen=True)
class Suite:
    """A suite: ``run`` in ``module`` takes its arguments and returns the exit code."""

    name: str
    help: str
    module: str


SUITES = (
    Suite(
        "operators", "PyTorch's operators on the device, against the CPU's answers", "torch_mydev.cli.conform.operators"
    ),
)


def run(arguments: Sequence[str]) -> int:
    """The subcommand: runs one suite; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{DEVICE_NAME} conform", description="Holds the device of MYDEV_DRIVER against what it must do."
    )
    subparsers = parser.add_subparsers(dest="suite", metavar="suite", required=True)
    for suite in SUITES:
        subparsers.add_parser(suite.name, help=suite.help, add_help=False)
    chosen = parser.parse_args(arguments[:1]).suite
    suite = next(suite for suite in SUITES if suite.name == chosen)
    run_suite: Callable[[Sequence[str]], int] = importlib.import_module(suite.module).run
    return run_suite(arguments[1:])
