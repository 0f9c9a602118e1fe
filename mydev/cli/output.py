"""The output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mydev.cli.finding import Finding, describe

_WIDTH = 160  # where the output is no terminal


def console() -> Console:
    """A console on standard output."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False, soft_wrap=not sys.stdout.isatty())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints columns without lines between them, and without a header if no column has a name."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out = console()
    with out.capture() as printed:
        out.print(table)
    lines = printed.get().splitlines()
    print("\n".join(line.rstrip() for line in lines))  # the table fills its last column with blanks


def print_json(value: object) -> None:
    """Indented, so that it can be read as well."""
    print(json.dumps(value, indent=2))


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> int:
    """Prints findings; returns the exit code, 1 if one is a problem."""
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        styles = {"ok": "green", "note": "yellow", "problem": "bold red"}
        out = console()
        for finding, text in zip(findings, describe(findings), strict=True):
            out.print(Text(text[:4], styles[finding.state]), Text(text[4:]), sep="", soft_wrap=True)
    return int(any(finding.state == "problem" for finding in findings))
