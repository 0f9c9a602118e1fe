"""The tables of a conformance report, made of its data; report_views.py shows them.

``tables_of`` takes the data that ``report.json`` has: what each suite prints with --json, by the suite's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mydev.html_page import Cell, CellValue
from mydev.wording import counted
from torch_mydev.conform.operators.row import FAILURES, WAYS

FORMAT = 1  #: of report.json: another number cannot be read

#: Words for an operator in a dtype, from good to bad, with the color of its cell.
HOW: dict[str, str] = {
    "native": "good",
    "portable": "fair",
    "host": "fair",
    "no launch": "none",
    "skipped": "none",
    "declined": "poor",
    "falls back": "poor",
    "raised": "bad",
    "timed out": "bad",
    "crashed": "bad",
    "wrong": "bad",
}
MEANING = {
    "native": "kernels of the driver",
    "portable": "kernels that the device's compiler makes",
    "host": "the host's kernels, on the device's memory",
    "no launch": "nothing is computed: a view, an allocation, a copy",
    "skipped": "the CPU has no answer, or PyTorch rules it out",
    "declined": "falls back, since a kernel declined the operands",
    "falls back": "PyTorch's CPU kernel computes it",
    "wrong": "another result than the CPU's, or none: raised, crashed, timed out",
}
_STATUS = {"passed": "good", "skipped": "none", "failed": "bad"}


@dataclass(frozen=True)
class ReportTable:
    """A part of the report."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[CellValue]]
    text: str = ""  #: above it
    colors: bool = False  #: its cells are colored by HOW
    notes: Sequence[str] = field(default_factory=tuple)  #: below it


def tables_of(report: dict[str, Any], earlier: dict[str, Any] | None) -> list[ReportTable]:
    """All tables of a report; with an earlier one, what changed since comes first."""
    makers = {"driver": _driver, "kernels": _kernels, "operators": _operators, "models": _models}
    tables = [_summary(report)]
    if earlier is not None:
        tables.append(_changes(report, earlier))
    tables.append(_failures(report))
    for name, make in makers.items():
        data = report["suites"].get(name, {"not_run": ""})
        if "not_run" not in data:
            tables += make(data)
    return [*tables, _environment(report)]


def failed(report: dict[str, Any]) -> bool:
    """Whether anything of the report failed."""
    return bool(_failures(report).rows)


# --- what all have ----------------------------------------------------------------------------------------------------


def how(row: dict[str, Any]) -> str:
    """A word of HOW for an operator in a dtype."""
    if row["status"] == "differs":
        return "wrong"
    if row["status"] != "passed":
        return str(row["status"])
    answers = [answer for answer in (row["forward"], row["backward"]) if answer]
    declined = any(answer["declined"] for answer in answers)
    return how_of({way for answer in answers for way in answer["ways"]}, declined)


def how_of(ways: Iterable[str], declined: bool) -> str:
    """A word of HOW for what was computed in these ways, the worst of them."""
    found = max(ways, key=WAYS.index, default="no launch")
    return "declined" if found == "falls back" and declined else found


def _colored(word: str, title: str = "") -> Cell:
    return Cell(word, HOW[word], title)


def _kernel_rows(report: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for source, data in report["suites"].get("kernels", {}).get("sources", {}).items():
        for row in data["kernels"]:
            yield source, row


def _rows(report: dict[str, Any], suite: str, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = report["suites"].get(suite, {}).get(name, [])
    return rows


def _summary(report: dict[str, Any]) -> ReportTable:
    rows: list[Sequence[CellValue]] = []

    def add(name: str, data: dict[str, Any], statuses: Iterable[str]) -> None:
        counts = Counter(statuses)
        text = ", ".join(f"{counts[word]} {word}" for word in [*HOW, "passed", "failed"] if counts[word])
        rows.append((name, sum(counts.values()), text, f"{data['seconds']:.0f} s"))

    for suite, data in report["suites"].items():
        if "not_run" in data:
            rows.append((suite, 0, f"not run: {data['not_run']}", ""))
        elif suite == "driver":
            add("driver cases", data, (case["status"] for case in data["cases"]))
        elif suite == "kernels":
            for source, found in data["sources"].items():
                add(f"kernels: {source}", data, (row["status"] for row in found["kernels"]))
        elif suite == "operators":
            add("operators by dtype", data, map(how, data["operators"]))
        else:
            add("models", data, (model["status"] for model in data["models"]))
    part = "" if report["share"] == "0/1" else f", share {report['share']} of everything"
    part += f", {', '.join(report['only'])} alone" if report["only"] else ""
    text = f"Driver {report['driver']}, {report['when']}{part}."
    return ReportTable("Summary", ("suite", "number", "outcome", "time"), rows, text)


def _failures(report: dict[str, Any]) -> ReportTable:
    rows: list[Sequence[CellValue]] = [
        ("driver", case["name"], "failed", "; ".join(case["messages"]))
        for case in _rows(report, "driver", "cases")
        if case["status"] == "failed"
    ]
    rows += [
        (f"kernels: {source}", row["kernel"], "wrong", "; ".join(row["messages"]))
        for source, row in _kernel_rows(report)
        if row["status"] == "failed"
    ]
    rows += [
        ("operators", f"{row['operator']} {row['dtype']}", how(row), _detail(row))
        for row in _rows(report, "operators", "operators")
        if row["status"] in FAILURES
    ]
    rows += [
        ("models", model["model"], model["status"], model["detail"])
        for model in _rows(report, "models", "models")
        if model["status"] != "passed"
    ]
    text = "" if rows else "Nothing failed."
    return ReportTable("Failures", ("suite", "name", "outcome", "details"), rows, text)


def _detail(row: dict[str, Any]) -> str:
    directions = ((name, row[name]) for name in ("forward", "backward"))
    return "; ".join(f"{name}: {answer['detail']}" for name, answer in directions if answer and answer["detail"])


def _environment(report: dict[str, Any]) -> ReportTable:
    device = report["suites"].get("models", {}).get("device", {})
    parts = {"version": report["versions"], "machine": report["machine"], "device": device}
    rows = [(part, name.replace("_", " "), str(value)) for part, of in parts.items() for name, value in of.items()]
    return ReportTable("Versions and machine", ("", "", ""), rows)


# --- suites -----------------------------------------------------------------------------------------------------------


def _driver(data: dict[str, Any]) -> list[ReportTable]:
    rows = [
        (
            case["group"],
            case["name"],
            Cell(case["status"], _STATUS[case["status"]]),
            "; ".join(case["messages"]) or case["promise"],
        )
        for case in data["cases"]
    ]
    notes = [f"{data['not_tried']} cases were not tried, since the first one failed."] if data["not_tried"] else []
    return [ReportTable("Driver", ("group", "case", "outcome", "promise, or what came"), rows, notes=notes)]


def _kernels(data: dict[str, Any]) -> list[ReportTable]:
    text = (
        "Frames that passed, of those tried, by the dtype of the contract's first variable. The others were declined, "
        "which a kernel may do, or nobody knows their result."
    )
    tables = []
    for source, found in data["sources"].items():
        dtypes = sorted({dtype for row in found["kernels"] for dtype in row["dtypes"]})
        rows = []
        for row in found["kernels"]:
            cells = [_kernel_cell(row["dtypes"].get(dtype)) for dtype in dtypes]
            declined = "; ".join(row["reasons_declined"])
            rows.append((row["kernel"], Cell(row["status"], _STATUS[row["status"]]), *cells, declined))
        tables.append(ReportTable(f"Kernels: {source}", ("kernel", "outcome", *dtypes, "declined"), rows, text))
    return tables


def _kernel_cell(counts: dict[str, int] | None) -> Cell:
    if counts is None:
        return Cell("")
    kind = "bad" if counts["wrong"] else "good" if counts["passed"] else "none"
    title = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
    return Cell(f"{counts['passed']}/{sum(counts.values())}", kind, title, counts["passed"])


def _operators(data: dict[str, Any]) -> list[ReportTable]:
    dtypes = list(dict.fromkeys(row["dtype"] for row in data["operators"]))
    by_operator: dict[str, dict[str, Cell]] = {}
    fallbacks: dict[str, tuple[set[str], set[str]]] = {}
    for row in data["operators"]:
        answers = [answer for answer in (row["forward"], row["backward"]) if answer]
        declined = [(op, why) for answer in answers for op, why in answer["declined"].items()]
        fell_back = sorted({op for answer in answers for op in answer["fallbacks"]})
        title = "; ".join(filter(None, [_detail(row), ", ".join(fell_back), *sorted({why for _, why in declined})]))
        by_operator.setdefault(row["operator"], {})[row["dtype"]] = _colored(how(row), title)
        for op in fell_back:
            users, reasons = fallbacks.setdefault(op, (set(), set()))
            users.add(f"{row['operator']} {row['dtype']}")
            reasons.update(why for whose, why in declined if whose == op)
    rows: list[Sequence[CellValue]] = [
        [name, *(cells.get(dtype, Cell("")) for dtype in dtypes)] for name, cells in by_operator.items()
    ]
    text = (
        f"PyTorch's operator database on device '{data['device']}' of driver '{data['driver']}', forward and backward."
    )
    most = sorted(fallbacks.items(), key=lambda entry: -len(entry[1][0]))
    fell = [(op, len(users), "; ".join(sorted(why)) or "no kernel has this operator") for op, (users, why) in most]
    return [
        ReportTable("Operators", ("operator", *dtypes), rows, text, colors=True),
        ReportTable("What fell back", ("operator", "rows above", "why"), fell),
    ]


def _models(data: dict[str, Any]) -> list[ReportTable]:
    models = data["models"]
    cells: dict[str, dict[str, Cell]] = {}
    for model in models:
        words: dict[str, list[str]] = {}
        for call in model["operators"]:
            words.setdefault(call["operator"], []).append(how_of(call["ways"], bool(call["declined"])))
        for operator, found in words.items():
            worst = max(found, key=list(HOW).index)
            cells.setdefault(operator, {})[model["model"]] = _colored(worst)
    names = [model["model"] for model in models]
    rows: list[Sequence[CellValue]] = [
        [operator, *(of.get(name, Cell("")) for name in names)] for operator, of in sorted(cells.items())
    ]
    statuses = "; ".join(f"{model['model']} {model['status']}" for model in models)
    calls = [
        (
            model["model"],
            call["operator"],
            call["operands"],
            call["calls"],
            _colored(how_of(call["ways"], bool(call["declined"]))),
            "; ".join(call["declined"]),
        )
        for model in models
        for call in model["operators"]
    ]
    text = f"Two steps of training, compared with the CPU's: {statuses}."
    return [
        ReportTable("Models", ("operator", *names), rows, text, colors=True),
        ReportTable("Calls of the models", ("model", "operator", "operands", "calls", "how", "declined"), calls),
    ]


# --- two runs ---------------------------------------------------------------------------------------------------------


def _outcomes(report: dict[str, Any]) -> dict[tuple[str, str], str]:
    """A word for everything that a report tells of, by suite and name."""
    found = {("driver", case["name"]): case["status"] for case in _rows(report, "driver", "cases")}
    for source, row in _kernel_rows(report):
        for dtype, counts in row["dtypes"].items():
            word = "wrong" if counts["wrong"] else f"{counts['passed']}/{sum(counts.values())} passed"
            found[f"kernels: {source}", f"{row['kernel']} {dtype}"] = word
    for row in _rows(report, "operators", "operators"):
        found["operators", f"{row['operator']} {row['dtype']}"] = how(row)
    for model in _rows(report, "models", "models"):
        found["models", model["model"]] = model["status"]
        for call in model["operators"]:
            name = f"{model['model']}: {call['operator']}({call['operands']})"
            found["models", name] = how_of(call["ways"], bool(call["declined"]))
    return found


def _changes(report: dict[str, Any], earlier: dict[str, Any]) -> ReportTable:
    now, before = _outcomes(report), _outcomes(earlier)
    order = ["passed", *HOW, "failed"]

    def verdict(was: str, is_now: str) -> Cell:
        ranks = [order.index(word) if word in order else -1 for word in (was, is_now)]
        if -1 in ranks and "wrong" in (was, is_now):
            return Cell("worse", "bad") if is_now == "wrong" else Cell("better", "good")
        if -1 in ranks:
            return Cell("other")
        return Cell("better", "good") if ranks[1] < ranks[0] else Cell("worse", "bad")

    rows = [
        (*key, before[key], now[key], verdict(before[key], now[key]))
        for key in now
        if key in before and now[key] != before[key]
    ]
    rows.sort(key=lambda row: row[4].text != "worse")
    both = sum(key in before for key in now)
    text = f"Compared with the run of {earlier['when']}, driver {earlier['driver']}: {counted(both, 'outcome')} in both"
    text += f", {len(now) - both} only in this one, {len(before) - both} only in the earlier one, "
    return ReportTable("Changes", ("suite", "name", "before", "now", ""), rows, f"{text}{len(rows)} changed.")
