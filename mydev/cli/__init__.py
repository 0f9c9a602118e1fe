"""The command line: a table of subcommands. Each is imported when it is called for, so that one that works with a
broken installation can. torch_mydev adds those that ask something of PyTorch (added.py).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mydev import COMMAND, __version__
from mydev.cli.arguments import Command, run_command

COMMANDS = (
    Command("bench", "time the device against the CPU, over work of all kinds", added="bench"),
    Command("cmake", "print the directory for CMake's find_package(mydev)", "mydev.cli.cmake"),
    Command(
        "conform",
        "test a driver, its kernels, and PyTorch's operators on it",
        "mydev.cli.conform.command",
    ),
    Command("doctor", "explain this installation, and what to do if it does not work", "mydev.cli.doctor"),
    Command("include", "print the directory of the C headers for drivers and kernels", "mydev.cli.include"),
    Command("kernels", "list, check, call and start kernels of your own", "mydev.cli.kernels.actions"),
    Command("new-device", "write a package for a device of your own", "mydev.new_device.command"),
    Command("report", "run a script; then say what the device did, and what fell back", added="report"),
    Command("top", "watch which processes use the devices, and how much of their memory", "mydev.top"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; returns its exit code. Without one it prints the help and returns 0."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] == "help":
        given = [*given[1:], "--help"]
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Tools for the device.",
        epilog="'mydev help COMMAND' explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    try:
        code = run_command(parser, given, COMMANDS, "command")
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads on, as of `mydev top | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    return code
