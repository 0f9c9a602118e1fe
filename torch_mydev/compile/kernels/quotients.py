"""Quotients in loops of what changes by what does not, as a softmax ends in: products, with half of a division's time.

The language's ``quotient_f32`` is a division for every divisor; which of them stay the same only says where it is worth
its while.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_QUOTIENT = re.compile(r"f32 (\w+) = \((tmp\d+) / (tmp\d+)\);")  # "f32 tmp9 = (tmp8 / tmp5);"
_ASSIGNED = re.compile(r"\b(tmp\d+) =[^=]")
_NAME = re.compile(r"\b[a-z]\w*")

_MOST_LINES = 12  #: of a loop that compilers make two of: for divisors that have a reciprocal, and for others


def as_products(lines: Sequence[str], changing: Collection[str]) -> list[str]:
    """The lines of a loop. ``changing``: names that are something else each time."""
    if len(lines) > _MOST_LINES:
        return list(lines)
    changed = set(changing)
    result = []
    for line in lines:
        if changed.intersection(_NAME.findall(line)):
            changed.update(_ASSIGNED.findall(line))
        match = _QUOTIENT.fullmatch(line)
        if match and match[2] in changed and match[3] not in changed:
            line = f"f32 {match[1]} = quotient_f32({match[2]}, {match[3]});"
        result.append(line)
    return result
