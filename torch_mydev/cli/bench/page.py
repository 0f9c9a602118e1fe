"""The page of ``mydev bench``: means, a chart of all rows, and the rows with what they take of the machine's limits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from mydev.html_page import Cell, CellValue, Markup, Section, escape, legend, page, paragraph, searched_table, table
from torch_mydev.cli.bench.limits import Limits
from torch_mydev.cli.bench.timing import Row, duration
from torch_mydev.cli.bench.work import Work

Result = tuple[Work, Row]

_KINDS = (("good", "the device is faster"), ("fair", "within 3 %"), ("poor", "the CPU is faster"))


def means(results: Sequence[Result]) -> dict[str, tuple[float, float, int]]:
    """For each group the geometric mean of its ratios, the lowest of them, and how many there are."""
    groups: dict[str, list[float]] = {}
    for work, row in results:
        groups.setdefault(work.group, []).append(row.ratio)
    return {group: (statistics.geometric_mean(all_), min(all_), len(all_)) for group, all_ in groups.items()}


def share_of_limit(work: Work, seconds: float, limits: Limits) -> float | None:
    """The part of the machine's limit that work of known size reached; None for other work."""
    if work.operations:
        return work.operations / seconds / limits.operations_per_second
    return work.moved / seconds / limits.bytes_per_second if work.moved else None


def _kind(ratio: float) -> str:
    return "good" if ratio > 1.03 else "fair" if ratio >= 0.97 else "poor"


_COLORS = {"good": "#2a9", "fair": "#38f", "poor": "#e80"}


def _bars(results: Sequence[Result]) -> Markup:
    """One bar to a row, from equal speed to the left or the right, by powers of two up to 32."""
    height, left, unit, most = 16, 330, 60, 5.0
    width = left + int((most + 2) * unit) + 80
    parts = []
    for power in range(-2, int(most) + 1):
        x = left + (power + 2) * unit
        label = f"{2.0**power:g}"
        parts.append(f'<line x1="{x}" y1="14" x2="{x}" y2="{(len(results) + 1) * height}" stroke="#8886"/>')
        parts.append(f'<text x="{x}" y="11" text-anchor="middle" font-size="10" fill="currentColor">{label}</text>')
    zero = left + 2 * unit
    for i, (work, row) in enumerate(results):
        reach = min(max(math.log2(row.ratio), -2.0), most)
        start, end = sorted((zero, zero + reach * unit))
        y = (i + 1) * height
        name, kind = escape(work.name), _kind(row.ratio)
        parts.append(
            f'<text x="{left - 8}" y="{y + 11}" text-anchor="end" font-size="11" fill="currentColor">{name}</text>'
        )
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 2}" width="{max(end - start, 1):.1f}" height="{height - 5}" '
            f'fill="{_COLORS[kind]}"><title>{name}: {row.ratio:.2f}</title></rect>'
        )
        parts.append(f'<text x="{end + 4:.1f}" y="{y + 11}" font-size="10" fill="currentColor">{row.ratio:.2f}</text>')
    total = (len(results) + 1) * height + 4
    return Markup(f'<svg width="{width}" height="{total}" viewBox="0 0 {width} {total}">{"".join(parts)}</svg>')


def bench_page(title: str, facts: Mapping[str, str], results: Sequence[Result], limits: Limits) -> str:
    """The whole page, as HTML."""
    rows: list[list[CellValue]] = []
    for work, row in results:
        share = share_of_limit(work, row.device_seconds, limits)
        rows.append(
            [
                work.group,
                work.name,
                Cell(duration(row.rival_seconds), order=row.rival_seconds),
                Cell(duration(row.device_seconds), order=row.device_seconds),
                Cell(f"{row.ratio:.2f}{' ~' if row.noisy else ''}", kind=_kind(row.ratio), order=row.ratio),
                row.median_ratio,
                "" if share is None else Cell(f"{100 * share:.0f} %", order=share),
            ]
        )
    groups: list[list[CellValue]] = [
        [group, mean, lowest, count] for group, (mean, lowest, count) in means(results).items()
    ]
    charts = [
        part
        for group in dict.fromkeys(work.group for work, _ in results)
        for part in (
            Markup(f"<h3>{escape(group)}</h3>"),
            _bars([(work, row) for work, row in results if work.group == group]),
        )
    ]
    columns = ("group", "row", "CPU", "device", "CPU / device", "median", "of the limit")
    note = (
        "More than 1 means that the device is faster. ~ marks rows whose fastest turns and whose median disagree by "
        "more than a tenth. The limit is what this machine was seen to do at most: of memory for work that moves it, "
        "which caches may exceed, and of multiplications for products and convolutions, which those that multiply less "
        "may exceed."
    )
    sections = [
        Section("Machine", [table(("", "value"), list(facts.items()))]),
        Section("Means", [table(("group", "CPU / device", "lowest", "rows"), groups)]),
        Section("Charts", [legend(_KINDS), *charts]),
        Section("Rows", [paragraph(note), searched_table(columns, rows)]),
    ]
    return page(title, sections)
