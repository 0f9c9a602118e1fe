"""Parts of a template that only some of the files written from it have, between marks in lines of their own.

- ``[with a or b]``: the lines from here to the next mark are for files of one of these names;
- ``[without a or b]``: they are for all other files;
- ``[end]``: the lines from here on are for all;
- ``[docs: part]``: a mark for the documentation, which is left out and ends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection


def with_parts(text: str, names: Collection[str]) -> str:
    """The text without marks, and without the parts that are not for a file of these names."""
    lines: list[str] = []
    skipping = False
    for line in text.splitlines(keepends=True):
        mark = re.search(r"\[(?:(with|without) ([\w -]+)|end|docs: [\w-]+)\]", line)
        if mark is None:
            lines += [] if skipping else [line]
        elif mark[1]:
            named = any(name in names for name in mark[2].split(" or "))
            skipping = named != (mark[1] == "with")
        elif mark[0] == "[end]":
            skipping = False
    return re.sub(r"\n{3,}(?=[^\n])", lambda blank: "\n" * min(len(blank[0]), 3), "".join(lines))
