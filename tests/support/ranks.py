"""Processes of one process group, which run functions for the tests: started once, used by many tests.

A function is called on every rank and its results come back in order of rank. When one fails or dies, the others are
stopped too, since they may wait for it in a collective, and the next call starts afresh.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import torch_mydev

#: The longest that a collective waits for another rank.
TIMEOUT = timedelta(seconds=60)


def device() -> torch.device:
    """This rank's device: ranks take the devices in turn."""
    return torch.device(torch_mydev.device_name, torch.accelerator.current_device_index())


def _serve(connection: Connection, rank: int, size: int, init_method: str) -> None:
    torch.set_num_threads(1)
    torch.accelerator.set_device_index(rank % torch.accelerator.device_count())
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    dist.init_process_group(init_method=init_method, rank=rank, world_size=size, timeout=TIMEOUT)
    while True:
        function, arguments = connection.recv()
        if function is None:
            break
        try:
            connection.send((function(*arguments), None))
        except Exception:
            connection.send((None, traceback.format_exc()))
    dist.destroy_process_group()


class Ranks:
    """``size`` processes; ``environment`` is theirs from their very beginning."""

    def __init__(self, size: int, **environment: str) -> None:
        self.size = size
        self._environment = environment
        self._processes: list[BaseProcess] = []
        self._connections: list[Connection] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None  #: of the store where ranks rendezvous

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Calls ``function(*arguments)`` on every rank. Raises AssertionError with the first failure of a rank."""
        if not self._processes:
            self._start()
        for connection in self._connections:
            with contextlib.suppress(BrokenPipeError):  # a rank that has died is noticed below
                connection.send((function, arguments))
        results: dict[int, Any] = {}
        waiting = {connection: rank for rank, connection in enumerate(self._connections)}
        while waiting:
            for connection in wait(list(waiting)):
                rank = waiting.pop(connection)  # type: ignore[arg-type]
                try:
                    results[rank], failure = connection.recv()  # type: ignore[union-attr]
                except (EOFError, ConnectionError):
                    failure = f"it ended with exit code {self._exit_code(rank)}"
                if failure is not None:
                    self._kill()
                    raise AssertionError(f"rank {rank} of {self.size} failed: {failure}")
        return [results[rank] for rank in range(self.size)]

    def stop(self) -> None:
        for connection in self._connections:
            connection.send((None, ()))
        for process in self._processes:
            process.join()
        exit_codes = [process.exitcode for process in self._processes]
        self._forget()
        assert exit_codes == [0] * len(exit_codes)

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self._directory = tempfile.TemporaryDirectory(prefix="mydev-ranks-")
        init_method = f"file://{Path(self._directory.name) / 'store'}"
        for rank in range(self.size):
            connection, other_end = context.Pipe()
            process = context.Process(target=_serve, args=(other_end, rank, self.size, init_method), daemon=True)
            with mock.patch.dict(os.environ, self._environment):
                process.start()
            other_end.close()
            self._processes.append(process)
            self._connections.append(connection)

    def _exit_code(self, rank: int) -> int | None:
        self._processes[rank].join()
        return self._processes[rank].exitcode

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._forget()

    def _forget(self) -> None:
        self._processes, self._connections = [], []
        if self._directory is not None:
            self._directory.cleanup()
