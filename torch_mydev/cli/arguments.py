"""Parsing of arguments that argparse does not have."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence

from torch_mydev.wording import did_you_mean


def check_command(parser: argparse.ArgumentParser, given: Sequence[str], commands: Collection[str]) -> None:
    """Ends the program, and names near commands, where the first word is no command and no option."""
    if given and not given[0].startswith("-") and given[0] not in commands:
        advice = did_you_mean(given[0], commands, otherwise=f"choose from {', '.join(commands)}")
        parser.error(f"there is no command '{given[0]}'; {advice}")


def above_zero(kind: type[int] | type[float]) -> Callable[[str], float]:
    """A type of argument: numbers above zero, of a size that makes sense."""

    def parse(text: str) -> float:
        value = kind(text)
        if not 0 < value < 1e6:
            raise ValueError
        return value

    parse.__name__ = f"number above 0 ({kind.__name__})"  # what argparse calls it
    return parse
