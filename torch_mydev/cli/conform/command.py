"""``conform``: a table of suites. Each is a module of its own, which is imported when it is called for."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.cli.arguments import check_command


@dataclass(frozen=True)
class Suite:
    """A suite: ``run`` in the module of its name takes its arguments and returns the exit code."""

    name: str
    help: str


SUITES = (
    Suite("driver", "the promises of mydev/driver.h, of memory, copies, streams, events and launches"),
    Suite("kernels", "what the contracts of the kernels say that the driver offers"),
    Suite("operators", "PyTorch's operators on the device, against the CPU's answers"),
)


def run(arguments: Sequence[str]) -> int:
    """The subcommand: runs one suite; returns its exit code."""
    description = "Holds the device of MYDEV_DRIVER against what it must do, suite by suite."
    parser = argparse.ArgumentParser(prog=f"{DEVICE_NAME} conform", description=description)
    subparsers = parser.add_subparsers(dest="suite", metavar="suite", required=True)
    for suite in SUITES:
        subparsers.add_parser(suite.name, help=suite.help, add_help=False)
    check_command(parser, arguments, [suite.name for suite in SUITES])
    chosen = parser.parse_args(arguments[:1]).suite
    run_suite: Callable[[Sequence[str]], int] = importlib.import_module(f"{__package__}.{chosen}").run
    return run_suite(arguments[1:])
