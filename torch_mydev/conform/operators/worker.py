"""A worker process that runs operators: asked on standard input, it answers on standard output (cli/workers.py).

    python -c "from torch_mydev.conform.operators.worker import main; main()"

A question is ``{"patterns": …, "dtypes": …}``, answered with the tasks, or a task, answered with what came
forward and backward, each as soon as it is known. The output of drivers and libraries goes to stderr.
"""

from __future__ import annotations

import fnmatch
import json
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.conform.operators.row import Answer, Task

if TYPE_CHECKING:
    import torch
    from torch.testing._internal.opinfo.core import OpInfo


def main() -> None:
    """Answers until there is no more question."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    problem = _problem()
    print(json.dumps({"error": problem} if problem else {"done": True}), file=answers)
    if problem:
        return
    for line in sys.stdin:
        question = json.loads(line)
        found = _tasks(**question) if "patterns" in question else _run(Task(**question))
        for value in found:
            print(json.dumps(value), file=answers)


def _problem() -> str:
    """Why nothing can be run in this process; "" if it can."""
    import torch

    try:
        torch.ones(2, device=DEVICE_NAME).cpu()
    except Exception as error:
        return f"the device cannot be used: {error}"
    try:
        from torch_mydev.conform.operators import harness  # noqa: F401
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "torch":
            raise
        return f"PyTorch's operator database needs the Python package {package}: pip install {package}"
    return ""


# --- what there is to run ---------------------------------------------------------------------------------------------


def _tasks(patterns: list[str], dtypes: list[str]) -> Iterator[dict[str, Any]]:
    """The tasks of the operators that a pattern fits, each in those of the dtypes that it has; all if none is given."""
    from torch_mydev.conform.operators import harness

    names = sorted(_operators())
    unknown = [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]
    tasks = [
        asdict(Task(name, _dtype_name(dtype)))
        for name in names
        if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        for dtype in _dtypes(harness.sample_dtype(_operators()[name]), _operators()[name], dtypes)
    ]
    yield {"done": True, "tasks": tasks, "unknown": unknown, "device": _device()}


def _operators() -> dict[str, OpInfo]:
    from torch_mydev.conform.operators import harness

    if not _known:
        _known.update({harness.case_name(op): op for op in harness.OPERATORS})
    return _known


_known: dict[str, OpInfo] = {}


def _dtypes(usual: torch.dtype, op: OpInfo, wanted: list[str]) -> list[torch.dtype]:
    if not wanted:
        return [usual]
    return [dtype for dtype in sorted(op.supported_dtypes("cpu"), key=str) if _dtype_name(dtype) in wanted]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _device() -> dict[str, Any]:
    """The device that the results are of."""
    from torch_mydev import _C

    properties = _C.device_properties(0)
    return {"name": properties["name"], "driver": properties["driver"]}


# --- running one ------------------------------------------------------------------------------------------------------


def _run(task: Task) -> Iterator[dict[str, Any]]:
    import torch

    from torch_mydev.conform.operators import harness, ledger

    op, dtype = _operators()[task.operator], getattr(torch, task.dtype)
    begin = time.perf_counter()
    forward = _answer(lambda: harness.check_forward(op, dtype), ledger.FORWARD_RAISES.get(task.operator))
    yield {"forward": asdict(forward)}
    if harness.has_gradients(op, dtype):
        declared = (ledger.BACKWARD_RAISES | ledger.FORWARD_RAISES).get(task.operator)
        yield {"backward": asdict(_answer(lambda: harness.check_backward(op, dtype), declared))}
    yield {"done": time.perf_counter() - begin}


def _answer(check: Callable[[], None], declared: str | None) -> Answer:
    """The outcome of a check of an operator. ``declared``: why it may raise."""
    import torch

    from torch_mydev.conform.operators import harness
    from torch_mydev.conform.ways import ways_of
    from torch_mydev.device.statistics import launch_statistics
    from torch_mydev.observe.fallback import fallback_census

    status, detail = "passed", ""
    random.seed(0)
    torch.manual_seed(0)
    with warnings.catch_warnings(), fallback_census() as census, launch_statistics() as statistics:
        warnings.simplefilter("ignore")
        try:
            check()
            # An error that an asynchronous device reports now is this operator's.
            torch.accelerator.synchronize()
        except harness.NoReference as error:
            status, detail = "skipped", _one_line(error)
        except AssertionError as error:
            status, detail = "differs", _one_line(error)
        except Exception as error:
            status, detail = "raised", f"{type(error).__name__}: {_one_line(error)}"
    if status == "raised" and declared:
        status, detail = "skipped", declared
    rows = census.rows
    return Answer(
        status,  # type: ignore[arg-type]  # one of those above
        detail,
        tuple(sorted(row.op for row in rows)),
        {row.op: row.declined for row in rows if row.declined},
        ways_of(statistics, census),
    )


def _one_line(error: Exception) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
