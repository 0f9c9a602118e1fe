"""Which operators ran on the CPU instead of the device, and whether they may.

Every operator works on the device: one without a kernel there runs PyTorch's CPU kernel, on the device's own memory
where the host can reach it, else on copies. Each such call is counted here; ``fallback_mode`` turns it into a warning
or an error. If the host cannot reach the memory, some operators are composed of others that the device has, in place of
copies: this is no fallback, and is counted apart.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Literal, get_args

import torch

from mydev.html_page import paragraph, table
from mydev.wording import did_you_mean
from torch_mydev import _C

FallbackMode = Literal["allow", "warn", "error"]


@dataclass(frozen=True)
class FallbackRow:
    """One operator's fallbacks, or one kernel's.

    Captured graphs and programs know kernels only. In eager mode, kernels that draw random numbers and those of
    attention are counted by kernel, too.
    """

    op: str  #: full name, e.g. ``aten::sort.stable``; a kernel's, e.g. ``mydev.sort``, if the host's ran on copies
    calls: int
    bytes_copied: int  #: to the CPU and back; 0 where the host works on the device's memory
    seconds: float  #: of the calls: the CPU kernel, and the copies and the waiting before and after it
    copy_seconds: float  #: of those, copies and waiting: what a kernel of the device as fast as the CPU's would save
    first_frame: str  #: ``file.py:12 in train``: where it was called from first; empty outside Python
    declined: str  #: why a kernel of the device did not take the operands, the first time; empty if there is none

    @property
    def staged(self) -> bool:
        """Whether the calls are launches of the host's kernel, on copies of the operands."""
        return "::" not in self.op

    @property
    def kernel(self) -> str:
        """The kernel whose contract a driver would fulfil to take this over, e.g. ``mydev.sort``; empty if there is
        none, and an operator of one's own is the way."""
        return self.op if self.staged else _kernel_of(self.op)


def _rows() -> dict[str, FallbackRow]:
    return {
        op: FallbackRow(op, calls, copied, nanoseconds * 1e-9, copying * 1e-9, frame, declined)
        for op, calls, copied, nanoseconds, copying, frame, declined in _C._fallback_rows()
    }


@functools.cache
def _contracts() -> frozenset[str]:
    return frozenset(contract["kernel"] for contract in _C.kernel_contracts())


#: Operators that are forms of one kernel of another name.
_FORMS = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "vdot", "addbmm", "linear"), "matmul"),
    "convolution_backward": "convolution_backward_data",
}


def _kernel_of(op: str) -> str:
    """The contract of an operator's name: that of its base, with or without what marks private and in-place forms."""
    base = op.partition("::")[2].partition(".")[0]
    public = base.strip("_")
    for name in (
        base,
        public,
        public.removeprefix("native_"),
        public.removesuffix("_dense"),
        public.removesuffix("_forward"),
        public.removesuffix("_data"),
        _FORMS.get(public, ""),
    ):
        if f"mydev.{name}" in _contracts():
            return f"mydev.{name}"
    return ""


class FallbackCensus:
    """The census of fallbacks, live; as a context manager, of what happens inside the ``with`` block only.

    >>> with torch_mydev.fallback_census() as census:
    ...     step()
    >>> print(census)               # a table, most time first
    >>> census.total_calls, census.rows[0].op, census.to_json()

    Counts of all threads of the process are included.
    """

    def __init__(self) -> None:
        self._before: dict[str, FallbackRow] = {}
        self._after: dict[str, FallbackRow] | None = None
        self._composed_before: dict[str, int] = {}
        self._composed_after: dict[str, int] | None = None

    def __enter__(self) -> FallbackCensus:
        self._before, self._after = _rows(), None
        self._composed_before, self._composed_after = _C._composition_counts(), None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._after = _rows()
        self._composed_after = _C._composition_counts()

    @property
    def compositions(self) -> dict[str, int]:
        """How often each operator was composed of others of the device, in place of a fallback by copies."""
        after = self._composed_after if self._composed_after is not None else _C._composition_counts()
        counts = {op: count - self._composed_before.get(op, 0) for op, count in after.items()}
        return {op: count for op, count in counts.items() if count > 0}

    @property
    def rows(self) -> list[FallbackRow]:
        """One row per operator that fell back, most time first."""
        rows = []
        for op, now in (self._after if self._after is not None else _rows()).items():
            was = self._before.get(op)
            if was is not None:
                now = FallbackRow(
                    op,
                    now.calls - was.calls,
                    now.bytes_copied - was.bytes_copied,
                    now.seconds - was.seconds,
                    now.copy_seconds - was.copy_seconds,
                    now.first_frame,
                    now.declined,
                )
            if now.calls > 0:
                rows.append(now)
        return sorted(rows, key=lambda row: -row.seconds)

    @property
    def total_calls(self) -> int:
        """Number of calls that fell back."""
        return sum(row.calls for row in self.rows)

    @property
    def staged_calls(self) -> int:
        """How many of them were launches of the host's kernels on copies: steps of captured graphs and programs."""
        return sum(row.calls for row in self.rows if row.staged)

    def reset(self) -> None:
        """Sets every count of the process to zero."""
        _C._fallback_reset()
        self._before, self._after = {}, None
        self._composed_before, self._composed_after = {}, None

    def to_json(self) -> str:
        """The rows as a JSON array of objects with :class:`FallbackRow`'s fields."""
        return json.dumps([asdict(row) for row in self.rows])

    def __str__(self) -> str:
        rows = self.rows
        if not rows:
            return "no operator fell back to the CPU"
        width = max(len(row.op) for row in rows)
        counts = f"{'calls':>8}  {'copied':>10}  {'time':>10}  {'copies':>10}"
        lines = [f"{'operator':<{width}}  {counts}  {'kernel':<24}  first called from"]
        lines += [
            f"{row.op:<{width}}  {row.calls:>8}  {row.bytes_copied:>8} B  {row.seconds * 1e3:>7.2f} ms  "
            f"{row.copy_seconds * 1e3:>7.2f} ms  {row.kernel or '-':<24}  {row.first_frame}"
            + (f"\n{'':<{width}}  {row.declined}" if row.declined else "")
            for row in rows
        ]
        return "\n".join(lines)

    __repr__ = __str__  # what an interactive session shows

    def _repr_html_(self) -> str:
        if not self.rows:
            return paragraph(str(self))
        return table(
            (
                "operator",
                "calls",
                "bytes copied",
                "ms",
                "of these copies, ms",
                "kernel",
                "first called from",
                "declined",
            ),
            [
                (
                    row.op,
                    row.calls,
                    row.bytes_copied,
                    row.seconds * 1e3,
                    row.copy_seconds * 1e3,
                    row.kernel,
                    row.first_frame,
                    row.declined,
                )
                for row in self.rows
            ],
        )


def fallback_census() -> FallbackCensus:
    """The census of operators that fell back to the CPU since the process began (or the last ``reset``)."""
    return FallbackCensus()


def _operators(op: str) -> list[str]:
    """The full names of the operators that ``op`` means: one with an overload, "default" for that without a name, or
    all overloads. Raises ValueError where PyTorch has none; those of other libraries may still come."""
    names = torch._C._dispatch_get_all_op_names()
    base, _, overload = op.partition(".")
    if overload:
        found = {base if overload == "default" else op}.intersection(names)
    else:
        found = {name for name in names if name.partition(".")[0] == base}
    if found:
        return sorted(found)
    library, colons, _ = op.partition("::")
    if colons and library != "aten":
        return [op]
    known = set(names) if overload else {name.partition(".")[0] for name in names}
    advice = did_you_mean(op if colons else f"aten::{op}", known, otherwise="an example is aten::sort")
    raise ValueError(f"there is no operator {op}; {advice}")


class fallback_mode:
    """Sets what a fallback to the CPU does: ``"allow"`` (counted), ``"warn"`` (once per operator), or ``"error"``.

    Takes effect at once, for all threads; as a context manager, until the block ends. With ``op``, for that operator
    only, whatever the global mode: ``"aten::sort"`` for all its overloads, ``"aten::sort.stable"`` for one,
    ``"aten::sort.default"`` for the one without a name. In mode ``"error"`` a fallback raises NotImplementedError.

    The environment sets the mode at start: ``MYDEV_FALLBACK=error``,
    ``MYDEV_FALLBACK_OPS=aten::sort=error,aten::topk=warn``.
    """

    def __init__(self, mode: FallbackMode, op: str | None = None) -> None:
        self._previous: list[tuple[str | None, Any]]
        if op is None:
            self._previous = [(None, _C._fallback_mode())]
            _C._set_fallback_mode(mode)
        else:
            self._previous = [(name, _C._fallback_op_mode(name)) for name in _operators(op)]
            for name, _ in self._previous:
                _C._set_fallback_op_mode(name, mode)

    def __enter__(self) -> fallback_mode:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for op, mode in self._previous:
            if op is None:
                _C._set_fallback_mode(mode)
            else:
                _C._set_fallback_op_mode(op, mode)


def get_fallback_mode(op: str | None = None) -> str:
    """The mode in force, globally or for an operator: the strictest of its overloads'."""
    everywhere = str(_C._fallback_mode())
    modes = [everywhere] if op is None else [str(_C._fallback_op_mode(name) or everywhere) for name in _operators(op)]
    return max(modes, key=get_args(FallbackMode).index)


def _apply_environment() -> str:
    """Applies MYDEV_FALLBACK and MYDEV_FALLBACK_OPS, whose form has been checked; called when the package is loaded.

    Returns what is wrong, else "".
    """
    value = _C.config_value("MYDEV_FALLBACK_OPS")
    modes = [item.rpartition("=")[::2] for item in filter(None, value.split(","))]
    try:
        operators = [(name, mode) for op, mode in modes for name in _operators(op)]
    except ValueError as error:
        return f"MYDEV_FALLBACK_OPS='{value}' is not valid: {error}"
    _C._set_fallback_mode(_C.config_value("MYDEV_FALLBACK"))
    for name, mode in operators:
        _C._set_fallback_op_mode(name, mode)
    return ""
