"""The commands given to the device: each kernel, copy, fill and piece of host work, how often, how long, how much."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Literal

from mydev.html_page import paragraph, table
from torch_mydev import _C

CommandKind = Literal["launch", "copy", "fill", "host call"]


@dataclass(frozen=True)
class CommandRow:
    """All commands of one kind and name on one device."""

    kind: CommandKind
    name: str  #: a kernel (``mydev.add``), ``copy to the host``, an operator whose CPU kernel ran (``aten::sort``), ...
    device: int
    calls: int
    seconds: float  #: on an asynchronous stream, from when the stream was free for a command until its end
    bytes: int  #: moved; of launches: of the operands; 0 for host calls
    portable: int = 0  #: launches of portable kernels among the calls; the other launches are the driver's own

    @property
    def command(self) -> str:
        """The kind; "portable" in place of "launch" if all were portable kernels."""
        return _PORTABLE if 0 < self.calls <= self.portable else self.kind


_Key = tuple[str, str, int]


#: The kind under which launches of portable kernels are counted a second time.
_PORTABLE = "portable"


def _counts() -> dict[_Key, tuple[int, int, int]]:
    counts = {(kind, name, device): counts for kind, name, device, *counts in _C._command_rows()}
    portable = {(_PORTABLE, name, device): (calls, 0, 0) for (name, device), calls in _C._portable_launches().items()}
    return counts | portable


class LaunchStatistics:
    """The commands of a ``with`` block, of all threads and devices of the process.

    >>> with torch.mydev.launch_statistics() as statistics:
    ...     step()
    ...     torch.mydev.synchronize()  # on an asynchronous device: what has not run by the end is not counted
    >>> print(statistics)  # a table, most time first
    >>> statistics.rows[0].name, statistics.total_calls, statistics.to_json()

    A host call's time includes that of the commands inside it: a compiled graph that launches kernels is such a one.
    Counting costs some hundred nanoseconds a command, and nothing once the block has ended.
    """

    def __init__(self) -> None:
        self._before: dict[_Key, tuple[int, int, int]] = {}
        self._after: dict[_Key, tuple[int, int, int]] | None = {}

    def __enter__(self) -> LaunchStatistics:
        self._before, self._after = _counts(), None
        _C._begin_command_statistics()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C._end_command_statistics()
        self._after = _counts()

    @property
    def rows(self) -> list[CommandRow]:
        """One row for each kernel, copy, fill and host call, most time first."""
        after = self._after if self._after is not None else _counts()
        nothing = (0, 0, 0)

        def since(key: _Key) -> tuple[int, ...]:
            return tuple(b - a for a, b in zip(self._before.get(key, nothing), after.get(key, nothing), strict=True))

        rows = []
        for key in after:
            kind, name, device = key
            calls, size, nanoseconds = since(key)
            if calls == 0 or kind == _PORTABLE:
                continue
            portable = since((_PORTABLE, name, device))[0] if kind == "launch" else 0
            rows.append(CommandRow(kind, name, device, calls, nanoseconds * 1e-9, size, portable))  # type: ignore[arg-type]
        return sorted(rows, key=lambda row: -row.seconds)

    @property
    def total_calls(self) -> int:
        """Number of commands."""
        return sum(row.calls for row in self.rows)

    def to_json(self) -> str:
        """The rows as a JSON array of objects with :class:`CommandRow`'s fields."""
        return json.dumps([asdict(row) for row in self.rows])

    def __str__(self) -> str:
        rows = self.rows
        if not rows:
            return "the device was given nothing to do"
        width = max(len(row.name) for row in rows)
        lines = [f"{'command':<9}  {'name':<{width}}  {'calls':>8}  {'time':>10}  {'bytes':>10}"]
        for row in rows:
            figures = f"{row.calls:>8}  {row.seconds * 1e3:>7.2f} ms  {_size(row.bytes):>10}"
            lines.append(f"{row.command:<9}  {row.name:<{width}}  {figures}")
        return "\n".join(lines)

    __repr__ = __str__  # what an interactive session shows

    def _repr_html_(self) -> str:
        if not self.rows:
            return paragraph(str(self))
        return table(
            ("command", "name", "device", "calls", "ms", "bytes"),
            [(row.command, row.name, row.device, row.calls, row.seconds * 1e3, row.bytes) for row in self.rows],
        )


def _size(count: int) -> str:
    if count == 0:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if count < 10_000:
            return f"{count:.0f} {unit}"
        count = count // 1024
    return f"{count} GiB"


def launch_statistics() -> LaunchStatistics:
    """Counts what the device is given to do inside a ``with`` block: see :class:`LaunchStatistics`."""
    return LaunchStatistics()
