"""``include``: prints where the C headers are that drivers and kernels are built with. Works without torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mydev.headers import include_dir


def run(arguments: Sequence[str]) -> int:
    """The subcommand: prints the directory; 1 where the headers are not there, since the package was not built."""
    return print_directory(arguments, "include", "the C headers", Path(include_dir()), "mydev/custom_call.h")


def print_directory(arguments: Sequence[str], command: str, content: str, directory: Path, file: str) -> int:
    """Prints the directory of that content; 1 where it lacks the file, since the package was not built."""
    parser = argparse.ArgumentParser(prog=f"mydev {command}", description=f"Prints where {content} are.")
    parser.parse_args(arguments)
    if not (directory / file).exists():
        print(f"{directory} has no {file}; build the package first: make build", file=sys.stderr)
        return 1
    print(directory)
    return 0
