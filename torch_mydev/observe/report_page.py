"""The page of ``mydev report --html``: time line, commands, fallbacks, memory and compiled graphs of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from mydev.html_page import Cell, Markup, Section, data_script, escape, page, paragraph, searched_table
from mydev.top import size_text
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.statistics import CommandRow
from torch_mydev.observe.compile_report import GraphReport, graph_table
from torch_mydev.observe.fallback import FallbackRow
from torch_mydev.observe.memory_kinds import KINDS, MemoryLine
from torch_mydev.observe.timeline import Timeline

_COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#bab0ac")  # of KINDS

# Draws the bars of each stream; the wheel zooms, dragging moves, and the mouse tells what is below it. Then the memory,
# which has the same span of time where it has one.
_SCRIPT = """
const color = n => `hsl(${n * 137.5 % 360} 55% 55%)`;
const time = us => us < 1000 ? us.toFixed(1) + ' µs' : us < 1e6 ? (us / 1e3).toFixed(3) + ' ms'
  : (us / 1e6).toFixed(3) + ' s';
const bytes = b => b < 1048576 ? (b / 1024).toFixed(1) + ' KiB' : b < 1073741824 ? (b / 1048576).toFixed(1) + ' MiB'
  : (b / 1073741824).toFixed(2) + ' GiB';
function view(id, span, height, draw, tell) {
  const canvas = document.getElementById(id), note = document.getElementById(id + '-note');
  if (!canvas) return;
  let [from, to] = [0, span], dragged = null;
  const paint = () => {
    canvas.width = canvas.clientWidth; canvas.height = height;
    const g = canvas.getContext('2d');
    g.font = '12px sans-serif';
    draw(g, from, to, x => (x - from) / (to - from) * canvas.width, canvas.width);
  };
  const at = event => from + event.offsetX / canvas.width * (to - from);
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    const here = at(event), scale = event.deltaY < 0 ? 0.8 : 1.25;
    from = Math.max(0, here - (here - from) * scale); to = Math.min(span, here + (to - here) * scale);
    if (to - from < 0.1) to = from + 0.1;
    paint();
  }, {passive: false});
  canvas.addEventListener('mousedown', event => { dragged = [event.offsetX, from, to]; });
  window.addEventListener('mouseup', () => { dragged = null; });
  canvas.addEventListener('dblclick', () => { [from, to] = [0, span]; paint(); });
  canvas.addEventListener('mousemove', event => {
    if (dragged) {
      let moved = (dragged[0] - event.offsetX) / canvas.width * (dragged[2] - dragged[1]);
      moved = Math.max(-dragged[1], Math.min(span - dragged[2], moved));
      from = dragged[1] + moved; to = dragged[2] + moved; paint();
    }
    note.textContent = time(at(event)) + '  ' + tell(at(event), event.offsetY);
  });
  window.addEventListener('resize', paint);
  paint();
}
const lane = 26;
const bars = timeline.bars.map(flat => {
  const found = []; let begin = 0;
  for (let i = 0; i < flat.length; i += 4) {
    begin += flat[i];
    found.push([begin / 10, flat[i + 1] / 10, flat[i + 2], flat[i + 3]]);
  }
  return found;
});
view('timeline', timeline.span, Math.max(1, bars.length) * lane, (g, from, to, x, width) => bars.forEach((of, row) => {
  let last = -1;
  for (const [begin, length, name] of of) {
    if (begin + length < from || begin > to) continue;
    const left = x(begin), right = Math.max(left + 1, x(begin + length));
    if (right - last < 0.5) continue;
    last = right;
    g.fillStyle = color(name); g.fillRect(left, row * lane + 2, right - left, lane - 4);
    if (right - left < 60) continue;
    g.fillStyle = '#000';
    g.fillText(timeline.names[name], left + 3, row * lane + 17, right - left - 6);
  }
}), (t, y) => {
  const row = Math.min(bars.length - 1, Math.floor(y / lane)), slack = timeline.span / 2000, of = bars[row] || [];
  const hit = of.find(b => b[0] <= t && t <= b[0] + b[1]) || of.find(b => Math.abs(b[0] - t) < slack);
  if (!hit) return timeline.streams[row] || '';
  const more = hit[3] > 1 ? ` and ${hit[3] - 1} more` : '';
  return `${timeline.streams[row]}: ${timeline.names[hit[2]]}${more}, ${time(hit[1])}`;
});
memory.forEach((line, number) => {
  const top = Math.max(1, ...line.points.map(p => p[1].reduce((a, b) => a + b, 0)));
  view('memory' + number, line.span, 220, (g, from, to, x, width) => {
    line.points.forEach(([when, kinds], i) => {
      const next = i + 1 < line.points.length ? line.points[i + 1][0] : line.span;
      if (next < from || when > to) return;
      const left = x(when), right = Math.max(left + 1, x(next));
      let y = 220;
      kinds.forEach((size, kind) => {
        const h = size / top * 210;
        y -= h;
        g.fillStyle = colors[kind];
        g.fillRect(left, y, right - left, h);
      });
    });
  }, t => {
    const here = line.points.filter(p => p[0] <= t).pop();
    if (!here) return '';
    return here[1].map((size, kind) => size ? kinds[kind] + ' ' + bytes(size) : '').filter(Boolean).join(', ');
  });
});
"""


@dataclass(frozen=True)
class ProgramReport:
    """Everything that the page shows."""

    script: str
    seconds: float
    exit_code: int
    commands: Sequence[CommandRow]
    fallbacks: Sequence[FallbackRow]
    graphs: Sequence[GraphReport]
    timeline: Timeline
    memory: Sequence[MemoryLine]


def program_page(report: ProgramReport) -> str:
    """The page, which needs nothing beside it."""
    sections = [
        Section("Program", [paragraph(_summary(report))]),
        Section("Time line", _timeline(report.timeline)),
        Section("Commands by time", [_commands(report.commands)]),
        Section("Fallbacks by cost", [_fallbacks(report.fallbacks)]),
        Section("Memory", _memory(report.memory)),
        Section("Compiled graphs", [_graphs(report.graphs)]),
    ]
    return page(f"mydev report: {report.script}", sections, _SCRIPT)


def _summary(report: ProgramReport) -> str:
    busy = sum(row.seconds for row in report.commands if row.kind != "host call")
    fell_back = sum(row.seconds for row in report.fallbacks)
    calls = sum(row.calls for row in report.commands)
    return (
        f"{report.script} ended with exit code {report.exit_code} after {report.seconds:.2f} s. The device was given "
        f"{calls:,} commands; launches, copies and fills took {busy:.3f} s, fallbacks {fell_back:.3f} s."
    )


def _canvas(name: str, height: int) -> Markup:
    return Markup(f'<canvas id="{name}" style="width:100%;height:{height}px"></canvas><p id="{name}-note">&nbsp;</p>')


def _timeline(line: Timeline) -> list[Markup]:
    # Tenths of a microsecond; each begin is given as its difference from the one before.
    flat = []
    for bars in line.bars:
        begins = [bar.begin // 100 for bar in bars]
        steps = (now - before for before, now in zip([0, *begins], begins, strict=False))
        flat.append(
            list(
                chain.from_iterable(
                    (s, (b.end - b.begin) // 100, b.name, b.count) for s, b in zip(steps, bars, strict=True)
                )
            )
        )
    span = max((bar.end for bars in line.bars for bar in bars), default=0) / 1e3
    data = {
        "streams": [f"{DEVICE_NAME}:{device}, stream {stream}" for device, stream in line.streams],
        "names": [name if kind == "launch" else f"{kind}: {name}" for kind, name in line.names],
        "bars": flat,
        "span": max(span, 1),
    }
    count = sum(map(len, line.bars))
    text = (
        f"{line.commands:,} commands, a row for each stream. The wheel zooms, dragging moves, a double click shows all."
    )
    if line.merged_within:
        text += (
            f" They are shown as {count:,} bars: those of a stream that begin within {line.merged_within / 1e3:g} µs "
            "are one, named by the one that takes longest."
        )
    if line.omitted:
        text += f" {line.omitted:,} later ones are not shown; the tables count them."
    rows = [[escape(name)] for name in data["streams"]]  # type: ignore[attr-defined]
    labels = Markup("".join(f'<div style="height:26px;font-size:11px">{row[0]}</div>' for row in rows))
    drawn = Markup(
        f'<div style="display:flex"><div style="width:9em;flex:none">{labels}</div><div style="flex:1;min-width:0">'
        f"{_canvas('timeline', 26 * max(1, len(line.bars)))}</div></div>"
    )
    return [paragraph(text), drawn, data_script("timeline", data)]


def _commands(rows: Sequence[CommandRow]) -> Markup:
    cells = [
        (
            row.command,
            row.name,
            f"{DEVICE_NAME}:{row.device}",
            row.calls,
            row.seconds * 1e3,
            row.seconds * 1e6 / row.calls,
            row.bytes,
        )
        for row in rows
    ]
    return searched_table(("command", "name", "device", "calls", "ms", "µs a call", "bytes"), cells)


def _fallbacks(rows: Sequence[FallbackRow]) -> Markup:
    if not rows:
        return paragraph("No operator fell back to the CPU.")
    columns = (
        "operator",
        "calls",
        "ms",
        "of these copies, ms",
        "bytes copied",
        "first called from",
        "kernel",
        "declined",
    )
    cells = [
        (
            row.op,
            row.calls,
            row.seconds * 1e3,
            row.copy_seconds * 1e3,
            row.bytes_copied,
            row.first_frame,
            row.kernel or Cell("none", "none"),
            row.declined,
        )
        for row in rows
    ]
    return searched_table(columns, cells)


def _memory(lines: Sequence[MemoryLine]) -> list[Markup]:
    parts = []
    colors = "".join(
        f'<span style="background:{color};color:#000">{kind}</span>' for kind, color in zip(KINDS, _COLORS, strict=True)
    )
    parts.append(Markup(f'<p class="legend">{colors}</p>'))
    data = []
    for number, line in enumerate(lines):
        first = line.points[0][0] if line.points else 0
        points = [(when - first, kinds) for when, kinds in line.points]
        data.append({"points": points, "span": max(1, points[-1][0] if points else 1)})
        text = ", ".join(f"{kind} {size_text(size)}" for kind, size in zip(KINDS, line.peak, strict=True) if size)
        text = f"{DEVICE_NAME}:{line.device}: at most {size_text(sum(line.peak))} in use: {text}."
        if not line.complete:
            text += f" The history has the last {line.events:,} events; what is older counts as other."
        parts += [paragraph(text), _canvas(f"memory{number}", 220)]
    if not lines:
        parts.append(paragraph("No memory of a device was used."))
    script = [data_script("memory", data), data_script("kinds", KINDS), data_script("colors", _COLORS)]
    return [*parts, *script]


def _graphs(rows: Sequence[GraphReport]) -> Markup:
    if not rows:
        return paragraph("torch.compile made no graph for the device.")
    return graph_table(rows)
