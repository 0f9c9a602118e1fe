"""Child interpreters that skip the start: each is forked from a process that has imported torch, and nothing of ours.

Importing torch is nearly all of a child's start, and importing the compiler most of its first compilation. The server
imports one or the other, without loading backends, so that a child reads the environment, registers the device and uses
it as a fresh interpreter does: its program must import torch_mydev itself. It runs in ``__main__`` and ends as an
interpreter ends, with exit handlers and the status of a signal. Variables that torch reads as it is imported, as
``OMP_NUM_THREADS``, are the server's: tests of these start a fresh interpreter.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping

from .checkout import environment

_SERVER = "from support.fork_server import serve; exec(compile(serve({0}, '{1}'), '<string>', 'exec'))"


class ForkServer:
    """Started by its first program; runs one at a time, whichever threads ask for them."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, code: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs a program with the given environment, and nothing else in it."""
        with self._lock, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            connection = self._connection or self._start()
            request = json.dumps({"code": code, "environment": dict(variables), "directory": os.getcwd()}).encode()
            socket.send_fds(connection, [len(request).to_bytes(8, "little")], [out.fileno(), err.fileno()])
            connection.sendall(request)
            answer = connection.recv(64)
            assert answer, "the fork server has died"
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
            return subprocess.CompletedProcess([sys.executable, "-c", code], int(answer), *texts)

    def stop(self) -> None:
        if self._process is not None and self._connection is not None:
            self._connection.shutdown(socket.SHUT_RDWR)  # for the copies in processes that were forked meanwhile, too
            self._connection.close()
            assert self._process.wait() == 0

    def _start(self) -> socket.socket:
        self._connection, other_end = socket.socketpair()
        with other_end:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER.format(other_end.fileno(), self._module)],
                env=environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0"),
                stdin=subprocess.DEVNULL,
                pass_fds=[other_end.fileno()],
            )
        return self._connection


def serve(descriptor: int, module: str) -> str:
    """Forks for each request. Returns in the child alone, with its program; the server itself exits here."""
    importlib.import_module(module)  # for the children
    gc.collect()
    gc.freeze()  # or each child copies all of torch's objects when it ends, only to look at them
    connection = socket.socket(fileno=descriptor)
    while True:
        head, descriptors, *_ = socket.recv_fds(connection, 8, 2)
        if not head:
            sys.exit(0)
        size, received = int.from_bytes(head, "little"), b""
        while len(received) < size:
            received += connection.recv(size - len(received))
        child = os.fork()
        if child == 0:
            connection.close()
            return _become(json.loads(received), descriptors)
        for file in descriptors:
            os.close(file)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(str(status).encode())


def _become(request: Mapping[str, str], descriptors: list[int]) -> str:
    """Takes on the output, the environment and the directory of the process that was asked for."""
    for target, file in zip((1, 2), descriptors, strict=True):
        os.dup2(file, target)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    return request["code"]
