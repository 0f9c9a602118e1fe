"""The commands given to the device: each kernel, copy, fill and piece of host work, how often, how long, how much."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Literal

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


_Key = tuple[str, str, int]


def _counts() -> dict[_Key, tuple[int, int, int]]:
    return {(kind, name, device): counts for kind, name, device, *counts in _C._command_rows()}


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
        rows = []
        for key, (calls, size, nanoseconds) in (self._after if self._after is not None else _counts()).items():
            was_calls, was_size, was_nanoseconds = self._before.get(key, (0, 0, 0))
            if calls > was_calls:
                seconds = (nanoseconds - was_nanoseconds) * 1e-9
                rows.append(CommandRow(*key, calls - was_calls, seconds, size - was_size))  # type: ignore[arg-type]
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
        lines += [
            f"{row.kind:<9}  {row.name:<{width}}  {row.calls:>8}  {row.seconds * 1e3:>7.2f} ms  {_size(row.bytes):>10}"
            for row in rows
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<LaunchStatistics: {self.total_calls} commands, {len(self.rows)} rows>"


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
