"""Programs on random drivers: with entries left out, failing calls, other alignments and little memory. Each line gives
the CPU's values or raises what the driver said."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import warnings
from typing import Any

import torch

import torch_mydev  # noqa: F401  # the child of a fork loads nothing by itself
from fuzz.eager import EagerProgram, writes
from support.checkout import DRIVERS

DRIVER = DRIVERS / "broken_driver.so"

#: The entries that a driver may leave out; those of one row are left out together.
OPTIONAL = (
    ("device_synchronize",),
    ("finalize",),
    ("memory_info",),
    ("host_alloc", "host_free"),
    ("host_access_begin", "host_access_end", "host_access_begin_range", "host_access_end_range"),
    ("host_access_begin_range", "host_access_end_range"),
    ("copy_peer",),
    ("find_kernel",),
    ("stream_status",),
    ("stream_host_call",),
    ("event_on_done",),
    ("copy_strided",),
    ("peer_access",),
    ("host_register", "host_unregister"),
    ("pointer_info",),
    ("list_kernels",),
)
REQUIRED = (
    *("initialize", "last_error", "device_count", "device_properties", "memory_alloc", "memory_free", "copy", "fill"),
    *("stream_create", "stream_destroy", "stream_query", "stream_synchronize", "stream_wait_event", "event_create"),
    *("event_destroy", "event_record", "event_query", "event_synchronize", "event_elapsed", "launch"),
)


def environment_of(seed: int) -> tuple[dict[str, str], str]:
    """A driver, as environment variables, and the entry that it must not lack: "" for one that is to be accepted."""
    chosen = random.Random(seed)
    left_out = [entry for entries in OPTIONAL if chosen.random() < 0.3 for entry in entries]
    lacking = chosen.choice(REQUIRED) if chosen.random() < 0.1 else ""
    options = [option for option in ("async", "guarded", "remote") if chosen.random() < 0.5]
    if "guarded" in options:  # which needs to know when the host has access
        left_out = [entry for entry in left_out if not entry.startswith("host_access")]
    if chosen.random() < 0.5:
        options.append(f"alignment={2 ** chosen.randint(7, 16)}")
    if chosen.random() < 0.4:
        options.append(f"memory={chosen.choice((64, 1024, 4096))}K")
    if chosen.random() < 0.3:
        options.append("devices=2")
    if chosen.random() < 0.3:
        options.append(f"faults={chosen.randrange(1000)}")  # delays
    driver = str(DRIVER) + ("" if not options else ":" + ",".join(options))
    defects = "+".join([*left_out, lacking] if lacking else left_out)
    return {"MYDEV_DRIVER": driver, "BROKEN_DRIVER_DEFECT": defects}, lacking


class FailingProgram(EagerProgram):
    """While a line runs on the device, each call of the driver may fail at random."""

    def __init__(self, seed: int, device: str, percent: int) -> None:
        self.failed = 0
        self._percent = percent
        self._driver = ctypes.CDLL(os.environ["MYDEV_DRIVER"].split(":")[0])
        super().__init__(seed, device)

    def _attempt(self, line: str, namespace: dict[str, Any]) -> Exception | None:
        if namespace["device"] == "cpu":
            return super()._attempt(line, namespace)
        percent = self._percent if len(self.names) > 1 else 0
        self._driver.broken_driver_fail_at_random(self.seed * 1000 + len(self.lines), percent)
        try:
            return super()._attempt(line, namespace)
        finally:
            self._driver.broken_driver_fail_at_random(0, 0)

    def step(self, line: str) -> str | None:
        expected = self._attempt(line, self.cpu)
        actual = self._attempt(line, self.device)
        if isinstance(actual, torch.OutOfMemoryError) or "fails on request" in str(actual):
            self.lines.append(f"# failed: {line}")
            self.failed += 1
            self.ended = writes(line)
            with contextlib.suppress(RuntimeError):  # of the line's work, which the CPU may refuse as well
                torch.accelerator.synchronize()
            return None
        try:
            return self._judge(line, expected, actual)
        except torch.OutOfMemoryError:  # of the comparison
            self.ended = True
            return None


def run(seed: int, programs: int) -> None:
    """In a process of its own: prints what was made, and raises what was found."""
    warnings.simplefilter("ignore")
    lines = failed = 0
    for number in range(programs):
        program = FailingProgram(seed * 1000 + number, "mydev", percent=(0, 1, 5, 20)[number % 4])
        problem = program.run()
        assert problem is None, f"{problem}\n\n{program.script()}"
        lines, failed = lines + len(program.lines), failed + program.failed
    del program
    gc.collect()
    assert torch.mydev.memory_allocated() == 0, torch.mydev.memory_summary()  # type: ignore[attr-defined]
    print(json.dumps({"lines": lines, "failed": failed}))
