"""``conform``: a table of suites. Each is a module of its own, which is imported when it is called for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mydev.cli.arguments import Command, run_command

SUITES = (
    Command(
        "driver",
        "the promises of mydev/driver.h, of memory, copies, streams, events and launches",
        "mydev.cli.conform.driver",
    ),
    Command(
        "kernels",
        "what the contracts of the kernels say that the driver offers",
        "mydev.cli.conform.kernels",
    ),
    Command(
        "operators",
        "PyTorch's operators on the device, against the CPU's answers",
        added="conform.operators",
    ),
    Command("report", "all of these and small models, as one page to show", added="conform.report"),
    Command(
        "upstream",
        "PyTorch's or JAX's own tests, from a checkout, against the CPU's answers",
        "mydev.cli.conform.upstream.command",
    ),
)


def run(arguments: Sequence[str]) -> int:
    """The subcommand: runs one suite; returns its exit code."""
    description = "Holds the device of MYDEV_DRIVER against what it must do, suite by suite."
    parser = argparse.ArgumentParser(prog="mydev conform", description=description)
    return run_command(parser, arguments, SUITES, "suite")
