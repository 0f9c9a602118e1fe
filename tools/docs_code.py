"""Keeps the code blocks of README.md and docs/*.md equal to the tested sources that they are taken from.

A block that follows a comment `<!-- code: path#part -->` shows the part of that file between the comments
`[docs: part]` and `[docs: end]`. Run without arguments to bring the blocks up to date, with --check to compare only
(exit status 1 when one differs).
"""

from __future__ import annotations

import re
import sys
import textwrap

from written_pages import ROOT, parser, write_or_check

_BLOCK = re.compile(
    r"(<!-- code: (?P<path>[^#\s]+)#(?P<part>[\w-]+) -->\n```\w+\n)"
    r"(?P<code>.*?)"
    r"(?P<end>```\n)",
    re.DOTALL,
)
# Parts of what `mydev new-device` writes that only some devices have.
_OPTIONAL = re.compile(r"^[^\n]*\[with compiler\].*?\[end\][^\n]*\n", re.DOTALL | re.MULTILINE)


def part_of(path: str, part: str) -> str:
    """The text of a marked part of a source file. Raises ValueError if there is no such part."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    begins = [i for i, line in enumerate(lines) if line.strip().endswith(f"[docs: {part}]")]
    if len(begins) != 1:
        raise ValueError(f"{path}: expected one part '[docs: {part}]', found {len(begins)}")
    first = begins[0] + 1
    ends = [i for i, line in enumerate(lines[first:], first) if line.strip().endswith("[docs: end]")]
    if not ends:
        raise ValueError(f"{path}: part '{part}' has no '[docs: end]'")
    text = _OPTIONAL.sub("", "\n".join([*lines[first : ends[0]], ""]))
    return textwrap.dedent(text).strip("\n") + "\n"


def updated(page: str) -> str:
    """The page with every block as its source is now."""
    return _BLOCK.sub(lambda m: m[1] + part_of(m["path"], m["part"]) + m["end"], page)


if __name__ == "__main__":
    found = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    updates = {path: updated(path.read_text(encoding="utf-8")) for path in found}
    sys.exit(write_or_check(updates, check=parser(__doc__).parse_args().check))
