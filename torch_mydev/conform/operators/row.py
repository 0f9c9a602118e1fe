"""The results of one operator in one dtype. Torch-free: the process that prints them needs no device."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["passed", "skipped", "differs", "raised", "timed out", "crashed"]

#: From good to bad: an operator has the worst of what its forward and backward have.
STATUSES: tuple[Status, ...] = ("passed", "skipped", "differs", "raised", "timed out", "crashed")
#: With one of these the device does not do what the CPU does.
FAILURES: tuple[Status, ...] = STATUSES[2:]

Way = Literal["native", "portable", "host", "falls back"]

#: From good to bad: kernels of the driver's own; portable ones, which the device's compiler makes; the host's kernels
#: on memory of the device that it reaches; PyTorch's CPU kernels, counted in the census.
WAYS: tuple[Way, ...] = ("native", "portable", "host", "falls back")


@dataclass(frozen=True)
class Task:
    """A task for a worker: an operator of the database, by name and variant, and the name of a dtype."""

    operator: str
    dtype: str


@dataclass(frozen=True)
class Answer:
    """The outcome of all samples of an operator, forward or backward."""

    status: Status
    detail: str = ""  #: what differed, what was raised, or why it was skipped
    fallbacks: tuple[str, ...] = ()  #: operators that ran PyTorch's CPU kernels instead of the device's
    declined: dict[str, str] = field(
        default_factory=dict
    )  #: of those, why a kernel of the device did not take operands
    ways: tuple[Way, ...] = ()  #: how it was computed, from good to bad; empty: nothing was launched


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    operator: str
    dtype: str
    forward: Answer
    backward: Answer | None  #: None: there are no gradients in this dtype
    seconds: float

    @property
    def answers(self) -> dict[str, Answer]:
        """The answers that there are, by direction."""
        return {"forward": self.forward, **({"backward": self.backward} if self.backward else {})}

    @property
    def status(self) -> Status:
        """The worst of both directions."""
        return max((answer.status for answer in self.answers.values()), key=STATUSES.index)

    @property
    def fell_back(self) -> bool:
        """Whether any of it ran on the CPU."""
        return any(answer.fallbacks for answer in self.answers.values())

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"status": self.status, "fell_back": self.fell_back, **asdict(self)}


def row_of(task: Task, answers: dict[str, Answer], seconds: float) -> Row:
    """The row of a task for which there are these answers, the forward one at least."""
    return Row(task.operator, task.dtype, answers["forward"], answers.get("backward"), seconds)
