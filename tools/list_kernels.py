"""Writes docs/reference/kernels.md: the contracts of the built-in kernels, as the built package has them.

Run without arguments to write the file, with --check to compare only (exit status 1 when it is out of date).
"""

from __future__ import annotations

import itertools
import re
import sys
import textwrap
from typing import Any

from written_pages import ROOT, parser, write_or_check

from torch_mydev import _C

PAGE = ROOT / "docs" / "reference" / "kernels.md"

_INTRODUCTION = """\
# Contracts of the built-in kernels

Written by `python tools/list_kernels.py`; do not edit. This page lists the operands of each kernel's frame, the results
first, their types, and what is computed. `mydev kernels info NAME` shows one of them. [How to use
them](../kernels.md).

| text | meaning |
| --- | --- |
| `x T` | an operand of the dtype that `T` stands for, the same wherever it is; the types list them |
| `x floats` | one of a set, whatever the others are |
| `ints`, `floats` | the sets s8 s16 s32 s64 u8, and f16 bf16 f32 f64; also `complex`, c64 c128, and `any` |
| `S: T f32` | what `T` is, or f32 |
| `T: f32 \\| f64` | dtypes behind the bar are given only to a record whose limits name them |
| `S: T f32(s8 u8)` | what `T` is, or f32 where `T` is s8 or u8 |
| `x T[m,n]`, `x T` | its sizes; without brackets `[...]`, any number of sizes, the same for all |
| `T[k...]`, `T[n*]` | several sizes under one name; any sizes whose product is n |
| `T[...]\\|[]`, `T\\|number` | one shape or the other; a tensor or one number (`MYDEV_BUFFER_SCALAR`) |
| `x? T`, `[x T]` | may be absent: data NULL, rank 0; may be left out |
| `x... T` | a list of buffers; all lists of a frame have one length |
| `&x T` | a result whose old value is read |
| `reduced` | a result that has the operand's sizes, and stride 0 along the dimensions that are reduced |
| `dense`, `packed` | row-major without gaps; without gaps, in an order of dimensions that all share. Else any strides |
| `n: int 1..3 = 2` | an attribute, what is defined, and its default: it may then be left out at the end |
| `number`, `scalar` | an attribute of the kind that goes with `T` (INT, FLOAT or COMPLEX); of any of these, or BOOL |
| `out may be a` | the result may lie exactly where the operand does; else no results share memory with operands |

The expression is what is computed: element by element, but for sum, prod, mean, amax, amin, any, all, argmax, argmin
and count, which are over all elements that go into a result. An absent operand counts as 1 there. f16 and bf16 are
computed as f32, and rounded once. The language is that of `csrc/kernels/spec/expression.h`. Notes follow the table.
"""


def _table(contracts: list[dict[str, Any]]) -> list[str]:
    """A row for each kernel. A column that is empty in all of them is left out."""
    columns = [part for part in ("operands", "types", "expression") if any(contract[part] for contract in contracts)]
    rows = [["kernel", *columns], ["---"] * (len(columns) + 1)]
    for contract in contracts:
        texts = (contract[part].replace("|", "\\|") for part in columns)
        rows.append([f"`{contract['kernel']}`", *(f"`{text}`" if text else "" for text in texts)])
    return [f"| {' | '.join(row)} |" for row in rows]


def _notes(contracts: list[dict[str, Any]]) -> list[str]:
    """A list of the notes, each with the kernels that have it."""
    kernels: dict[str, list[str]] = {}
    for contract in contracts:
        if contract["notes"]:
            kernels.setdefault(contract["notes"], []).append(f"`{contract['kernel']}`")
    lines = []
    for notes, names in kernels.items():
        text = re.sub(r" (?=[-+*] )", "\N{NO-BREAK SPACE}", notes)  # a line that begins with one would be a list's
        wrapped = textwrap.wrap(f"- {', '.join(names)}: {text}.", 120, subsequent_indent="  ", break_on_hyphens=False)
        lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
    return lines


def page() -> str:
    """The text of docs/reference/kernels.md."""
    lines = [_INTRODUCTION]
    for group, members in itertools.groupby(_C.kernel_contracts(), key=lambda contract: contract["group"]):
        contracts = list(members)
        lines += [f"## {group}", "", *_table(contracts), ""]
        if notes := _notes(contracts):
            lines += [*notes, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}, check=parser(__doc__).parse_args().check))
