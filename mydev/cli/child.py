"""Processes of their own, in which commands try what may crash, hang or end the process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Child:
    """How a child process ended, and the JSON objects that it printed."""

    failure: str  #: "ended with SIGSEGV"; "" if it ended with exit code 0
    exit_code: int | None  #: negative: a signal's; None if it was killed, for want of an end
    objects: list[dict[str, Any]]
    stderr: str

    def value(self, key: str) -> Any:
        """The last object's that has the key, or None."""
        return next((found[key] for found in reversed(self.objects) if key in found), None)


def run_child(command: Sequence[str], *, timeout: float, environment: Mapping[str, str] | None = None) -> Child:
    """Runs a command with ``environment`` added to this process's. It is killed after ``timeout`` seconds, with all
    processes that it started.
    """
    child = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    code: int | None = None
    try:
        output, errors = child.communicate(timeout=timeout)
        code, failure = child.returncode, describe_end(child.returncode)
    except subprocess.TimeoutExpired:
        _kill(child)
        output, errors = child.communicate()
        failure = f"came to no end within {timeout:g} seconds (--timeout gives it more)"
    except BaseException:  # an interrupt, which a process of another session does not hear of
        _kill(child)
        raise
    return Child(failure, code, list(_objects(output)), errors.strip())


def describe_end(exit_code: int) -> str:
    """ "ended with SIGSEGV"; "" for exit code 0."""
    if exit_code == 0:
        return ""
    return f"ended with {signal.Signals(-exit_code).name if exit_code < 0 else f'exit code {exit_code}'}"


def _kill(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _objects(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects among what a library may have printed."""
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value
