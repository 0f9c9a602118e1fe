"""Parsing of arguments that argparse does not have, and commands, each a module of its own."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mydev.cli import added
from mydev.drivers import VARIABLE
from mydev.wording import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Command:
    """A command: a function, imported when it is called for, that takes the arguments and returns the exit code."""

    name: str
    help: str
    module: str = ""  #: has it, as ``run``
    added: str = ""  #: or an entry point that another distribution adds

    def load(self) -> Callable[[Sequence[str]], int]:
        """The function. Raises Unavailable where the distribution that adds it is not there."""
        run: Callable[[Sequence[str]], int]
        run = added.load(self.added) if self.added else importlib.import_module(self.module).run
        return run


def run_command(parser: argparse.ArgumentParser, given: Sequence[str], commands: Sequence[Command], noun: str) -> int:
    """Runs the command that the first argument names with the others; returns its exit code."""
    subparsers = parser.add_subparsers(dest=noun, metavar=noun, required=True)
    for command in commands:
        subparsers.add_parser(command.name, help=command.help, add_help=False)
    check_command(parser, given, [command.name for command in commands])
    chosen = getattr(parser.parse_args(given[:1]), noun)
    try:
        run = next(command for command in commands if command.name == chosen).load()
    except added.Unavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return run(given[1:])


def check_command(parser: argparse.ArgumentParser, given: Sequence[str], commands: Collection[str]) -> None:
    """Ends the program, and names near commands, where the first word is no command and no option."""
    if given and not given[0].startswith("-") and given[0] not in commands:
        advice = did_you_mean(given[0], commands, otherwise=f"choose from {', '.join(commands)}")
        parser.error(f"there is no command '{given[0]}'; {advice}")


def add_suite_options(
    parser: argparse.ArgumentParser, timed: str, timeout: float, shared: str, *, jobs: bool = False
) -> None:
    """The options of each suite of ``conform``: ``timed`` is what the seconds are for, ``shared`` what has shares."""
    parser.add_argument("--driver", metavar="DRIVER", help=f"name or path, and options; else {VARIABLE}")
    if jobs:
        parser.add_argument(
            "-j", "--jobs", type=above_zero(int), default=len(os.sched_getaffinity(0)), metavar="N", help="processes"
        )
    parser.add_argument(
        "--timeout", type=above_zero(float), default=timeout, metavar="SECONDS", help=f"for each {timed} (%(default)g)"
    )
    parser.add_argument("--share", type=share, default="0/1", metavar="I/N", help=f"the I-th of N shares of {shared}")
    parser.add_argument("--json", action="store_true", help="print JSON")


def above_zero(kind: type[int] | type[float]) -> Callable[[str], float]:
    """A type of argument: numbers above zero, of a size that makes sense."""

    def parse(text: str) -> float:
        value = kind(text)
        if not 0 < value < 1e6:
            raise ValueError
        return value

    parse.__name__ = f"number above 0 ({kind.__name__})"  # what argparse calls it
    return parse


def share(text: str) -> str:
    """A type of argument: "I/N", the I-th of N shares."""
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and int(number) < int(of)):
        raise argparse.ArgumentTypeError(f"'{text}' is no share; write I/N with I below N, as in 0/6")
    return text


def of_share(items: Sequence[T], text: str) -> list[T]:
    """The items of a share: each N-th, from the I-th on."""
    number, _, of = text.partition("/")
    return list(items[int(number) :: int(of)])
