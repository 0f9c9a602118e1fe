"""Pages of HTML that open from a file: one style, tables that can be sorted and searched, no server and no network.

All that is put into a page is escaped, but for ``Markup``, which these functions and their callers make.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


class Markup(str):
    """Text that is HTML already."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than its text."""

    text: str
    kind: str = ""  #: its color, by the style below: good, fair, poor, bad, none
    title: str = ""  #: shown when the mouse is over it
    order: float | None = None  #: what its column is sorted by, in place of the text


#: The values that tables take: numbers are aligned to the right, and sorted as numbers.
CellValue = str | int | float | Cell

_STYLE = """
:root{color-scheme:light dark}
body{font:14px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1500px;padding:1em 2em}
h1{font-size:1.5em;margin:.4em 0}h2{font-size:1.2em;margin:1.6em 0 .4em;border-bottom:1px solid #8885}
nav a{margin-right:1em}p{max-width:60em}code{font-size:.95em}
table{border-collapse:collapse;font-size:13px}
th{cursor:pointer;text-align:left;position:sticky;top:0;background:Canvas;border-bottom:1px solid #8888}
td,th{padding:.15em .6em;vertical-align:top}tbody tr:hover{background:#8882}
td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.scroll{overflow:auto;max-height:75vh;border:1px solid #8884}
.good{background:#2a92}.fair{background:#38f2}.poor{background:#fa03}.bad{background:#e337;font-weight:600}.none{color:#8888}
.legend span{padding:.1em .5em;margin-right:.6em}
input.search{margin:.3em 0;padding:.2em .5em;width:22em}
svg,canvas{display:block;max-width:100%}
"""

# Sorts a table by the column whose header is clicked, and hides the rows that do not have the words of its search box.
_SCRIPT = """
document.querySelectorAll('table').forEach(table => {
  const body = table.tBodies[0], headers = table.tHead ? [...table.tHead.rows[0].cells] : [];
  const key = (row, column) => { const c = row.cells[column]; return c ? c.dataset.order ?? c.textContent : ''; };
  headers.forEach((header, column) => header.addEventListener('click', () => {
    const down = header.dataset.down !== '1';
    headers.forEach(other => delete other.dataset.down);
    header.dataset.down = down ? '1' : '0';
    const rows = [...body.rows].sort((a, b) => {
      const x = key(a, column), y = key(b, column), numbers = x !== '' && y !== '' && !isNaN(x) && !isNaN(y);
      return numbers ? y - x : x.localeCompare(y);
    });
    body.append(...(down ? rows : rows.reverse()));
  }));
});
document.querySelectorAll('input.search').forEach(box => box.addEventListener('input', () => {
  const words = box.value.toLowerCase().split(/\\s+/);
  const rows = box.parentElement.querySelector('tbody').rows;
  for (const row of rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
}));
"""


def escape(text: object) -> str:
    """The text as HTML."""
    from html import escape as escape_text  # it brings all names of characters, for which `import torch` would wait

    return text if isinstance(text, Markup) else escape_text(str(text))


def _cell(value: CellValue) -> str:
    if isinstance(value, bool | str):
        return f"<td>{escape(value)}</td>"
    if isinstance(value, Cell):
        order = "" if value.order is None else f' data-order="{value.order:g}"'
        title = f' title="{escape(value.title)}"' if value.title else ""
        kind = f' class="{value.kind}"' if value.kind else ""
        return f"<td{kind}{title}{order}>{escape(value.text)}</td>"
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    return f'<td class="number" data-order="{value:g}">{text}</td>'


def table(columns: Sequence[str], rows: Iterable[Sequence[CellValue]]) -> Markup:
    """A plain table, for notebooks too."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return Markup(f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>")


def searched_table(columns: Sequence[str], rows: Sequence[Sequence[CellValue]]) -> Markup:
    """A table in a frame of its own that scrolls, with a box to search its rows by."""
    box = f'<input class="search" type="search" placeholder="search {len(rows)} rows">'
    return Markup(f'<div>{box}<div class="scroll">{table(columns, rows)}</div></div>')


def paragraph(text: str) -> Markup:
    """A paragraph of text."""
    return Markup(f"<p>{escape(text)}</p>")


def legend(kinds: Iterable[tuple[str, str]]) -> Markup:
    """Explains the colors of cells: pairs of a kind of Cell and its meaning."""
    spans = "".join(f'<span class="{kind}">{escape(meaning)}</span>' for kind, meaning in kinds)
    return Markup(f'<p class="legend">{spans}</p>')


def data_script(name: str, value: Any) -> Markup:
    """Data that a script of the page finds as the constant ``name``."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")  # no end of the script inside it
    return Markup(f"<script>const {name} = {text};</script>")


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading, to which the page's first line links."""

    title: str
    parts: Sequence[Markup]

    @property
    def anchor(self) -> str:
        """The name that links have."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


def page(title: str, sections: Sequence[Section], script: str = "") -> str:
    """The whole page; ``script`` is JavaScript of its own."""
    links = " ".join(f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in sections)
    bodies = "\n".join(
        f'<section id="{section.anchor}"><h2>{escape(section.title)}</h2>\n{"".join(section.parts)}</section>'
        for section in sections
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>'
        f"<nav>{links}</nav>\n{bodies}\n<script>{_SCRIPT}{script}</script></body></html>\n"
    )
