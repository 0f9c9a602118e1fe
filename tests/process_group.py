"""Ranks of a process group, kept alive over many cases: starting Python with torch costs seconds, a case milliseconds.

A case is a function at the top of a test module, called as ``case(rank, size, **options)`` in every rank at once. It
checks what it has to check; what it raises comes back with the rank and the traceback. Ranks that do not answer are
killed, and the next case gets new ones.
"""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import os
import signal
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

#: After which the engine gives up. Far more than any case takes on a busy machine.
TIMEOUT = datetime.timedelta(seconds=60)

Case = Callable[..., Any]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def device_of(rank: int) -> Any:
    """The device that a rank works on: ranks take the process's devices in turn."""
    import torch

    import torch_mydev

    return torch.device(torch_mydev.device_name, rank % torch.accelerator.device_count())


def join(rank: int, size: int, port: int, timeout: datetime.timedelta = TIMEOUT, **options: Any) -> None:
    """Joins the default group, with nothing said about the backend unless ``options`` do."""
    import torch
    import torch.distributed as dist

    import torch_mydev  # noqa: F401

    torch.set_num_threads(1)
    torch.accelerator.set_device_index(device_of(rank).index)
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0, timeout=timeout, wait_for_workers=False)
    dist.init_process_group(rank=rank, world_size=size, store=store, timeout=timeout, **options)


def _serve(rank: int, size: int, port: int, pipe: Connection, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    join(rank, size, port)
    while True:
        request = pipe.recv()
        if request is None:
            break
        case, options = request
        try:
            case(rank, size, **options)
            pipe.send(None)
        except BaseException:
            pipe.send(f"rank {rank} of {size}:\n{traceback.format_exc()}")
    import torch.distributed as dist

    dist.destroy_process_group()


def _answer(pipe: Connection) -> str | None:
    """What a rank says of a case: None if all is well."""
    try:
        return pipe.recv() if pipe.poll(2 * TIMEOUT.total_seconds()) else "a rank gives no answer"
    except EOFError:
        return "a rank has ended"


class ProcessGroup:
    """``size`` processes; ``environment`` is set in each of them before torch is imported."""

    def __init__(self, size: int, **environment: str) -> None:
        self.size = size
        self._environment = environment
        self._ranks: list[tuple[Any, Connection]] = []

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        port = free_port()
        for rank in range(self.size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, self.size, port, theirs, self._environment), daemon=True
            )
            with _set_in_environment(self._environment):
                process.start()
            theirs.close()
            self._ranks.append((process, ours))

    def run(self, case: Case, **options: Any) -> None:
        """Runs a case in every rank. Raises AssertionError with what went wrong in the first rank that has failed."""
        if not self._ranks:
            self._start()
        for _, pipe in self._ranks:
            pipe.send((case, options))
        failures = [answer for _, pipe in self._ranks if (answer := _answer(pipe)) is not None]
        if failures:
            self.close(kill=True)
            raise AssertionError("\n".join(failures))

    def close(self, kill: bool = False) -> None:
        for process, pipe in self._ranks:
            if kill:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            else:
                with contextlib.suppress(OSError):
                    pipe.send(None)
        for process, _ in self._ranks:
            process.join()
        self._ranks.clear()


@contextlib.contextmanager
def _set_in_environment(environment: dict[str, str]) -> Any:
    """So that a process started inside has it from its very beginning."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
