"""A conformance report as a page and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from mydev.html_page import Cell, CellValue, Markup, Section, legend, page, paragraph, searched_table, table
from torch_mydev.cli.conform.report_tables import HOW, MEANING, ReportTable

_TITLE = "Conformance"
_SHORT = 20  # rows; tables of more have a box to search by


def as_html(tables: Sequence[ReportTable]) -> str:
    """One page, which needs nothing beside it."""
    return page(_TITLE, [Section(one.title, list(_parts(one))) for one in tables])


def _parts(one: ReportTable) -> list[Markup]:
    parts = [paragraph(one.text)] if one.text else []
    if one.colors:
        parts.append(legend((HOW[word], f"{word}: {meaning}") for word, meaning in MEANING.items()))
    if one.rows:
        parts.append((searched_table if len(one.rows) > _SHORT else table)(one.columns, one.rows))
    return parts + [paragraph(note) for note in one.notes]


def as_markdown(tables: Sequence[ReportTable]) -> str:
    """The same tables, without colors and what a mouse would show."""
    lines = [f"# {_TITLE}", ""]
    for one in tables:
        lines += [f"## {one.title}", ""]
        if one.text:
            lines += [one.text, ""]
        if one.rows:
            lines += [_line(one.columns), "|" + " --- |" * len(one.columns), *map(_line, one.rows), ""]
        for note in one.notes:
            lines += [note, ""]
    return "\n".join(lines)


def _line(cells: Sequence[CellValue]) -> str:
    texts = (cell.text if isinstance(cell, Cell) else str(cell) for cell in cells)
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"
