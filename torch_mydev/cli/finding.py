"""What a command found out about an installation or a library: one line of its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line of a report."""

    state: Literal["ok", "note", "problem"]
    subject: str
    text: str
    remedy: str = ""
