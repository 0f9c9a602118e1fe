"""Words that messages have in common."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """ "1 case", "2 cases"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def did_you_mean(word: str, words: Iterable[str], otherwise: str, cutoff: float = 0.6) -> str:
    """A question that names the words near a mistyped one; ``otherwise`` if none is near."""
    near = difflib.get_close_matches(word, list(words), n=3, cutoff=cutoff)
    near.sort(key=lambda other: sorted(other) != sorted(word))  # letters that are swapped are the likeliest slip
    return f"did you mean {' or '.join(near)}?" if near else otherwise
