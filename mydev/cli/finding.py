"""One entry of a report about an installation or a library."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_MARKS = {"ok": "ok  ", "note": "note", "problem": "FAIL"}
_ENDLESS = 1 << 16  # columns, where the output is no terminal and COLUMNS is not set
_LEAST = 20  # columns for the text


@dataclass(frozen=True)
class Finding:
    """One entry of a report."""

    state: Literal["ok", "note", "problem"]
    subject: str
    text: str
    remedy: str = ""


def describe(findings: Sequence[Finding]) -> Iterator[str]:
    """The text of each finding, which begins with a mark of four characters and is wrapped to the terminal."""
    subject = max(len(finding.subject) for finding in findings)
    indent = " " * (len("ok    ") + subject + len("  "))
    width = max(shutil.get_terminal_size((_ENDLESS, 0)).columns - len(indent), _LEAST)
    for finding in findings:
        lines = _wrap(finding.text, width) or [""]
        if finding.remedy:
            first, *others = _wrap(finding.remedy, width - len("-> "))
            lines += [f"-> {first}", *(f"   {line}" for line in others)]
        yield f"{_MARKS[finding.state]}  {finding.subject:<{subject}}  " + f"\n{indent}".join(lines)


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width``, but for words that are longer: paths can then be copied."""
    return [
        piece
        for line in text.splitlines()
        for piece in textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
    ]
