"""Loops of groups whose exponentials and quotients (quotients.py) are computed by vectors.

Compilers make vectors of the language's ``exp_f32`` and ``quotient_f32`` as of any arithmetic. But they do not use the
instructions that some instruction sets have for powers of 2 and bounds. A loop is written for several values at once if
all its values are ``f32``, and lie side by side or stay the same throughout. Such a loop uses the type ``f32s`` and
``VECTOR_AT``; the dialect decides which values are several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

_FUNCTION = re.compile(r"\b(exp|quotient)_f32\(")
_ASSIGNMENT = re.compile(r"(f32 )?(\S.*?) = (.*);")  # "f32 tmp4 = exp_f32(tmp3);", "kept0[r0_index] = tmp4;"
_VALUE = re.compile(r"tmp\d+")
_LANE = re.compile(r"acc\d+\[lane\]")
_KEPT = re.compile(r"kept\d+\[\w+index\]")  # kept_rows.py
_NAME = re.compile(r"\b[a-z]\w*")
_ARITHMETIC = re.compile(r"((exp|quotient)_f32\(|tmp\d+|\d[\d.e+-]*f|[-+*/(), ])+")  #: that vectors have


def as_vectors(lines: Sequence[str], changing: Collection[str], lies: Callable[[str], bool]) -> list[str] | None:
    """The lines of a loop for several values at once; None if they have no such function, or cannot be written so.

    ``changing``: names that have another value in each iteration. ``lies``: whether an element of memory that changes
    is an ``f32`` beside that of the iteration before.
    """
    if not any(map(_FUNCTION.search, lines)):
        return None
    changed = set(changing)
    result = []

    def of_several(element: str) -> str | None:
        return f"VECTOR_AT({element})" if _KEPT.fullmatch(element) or lies(element) else None

    for line in lines:
        changes = not changed.isdisjoint(_NAME.findall(line)) or _LANE.search(line)
        if not changes:
            result.append(line)
            continue
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            return None
        declared, target, value = match.groups()
        if declared:
            changed.add(target)
            value = value if _ARITHMETIC.fullmatch(value) else of_several(value)
            target = f"f32s {target}"
        elif _LANE.fullmatch(target):
            operands = value.replace(target, "")
            value = value.replace(target, f"VECTOR_AT({target})") if _ARITHMETIC.fullmatch(operands) else None
            target = f"VECTOR_AT({target})"
        else:
            value = value if _VALUE.fullmatch(value) and value in changed else None
            target = of_several(target)
        if value is None or target is None:
            return None
        result.append(f"{target} = {value};")
    return result
