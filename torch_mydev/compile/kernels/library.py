"""The kernels of one graph: compiled by the driver when the graph's code is loaded, launched by that code.

Sources are compiled some at a time, in as many threads as there are processors. Drivers and their compilers keep what
they compile by content, and so a graph that was compiled before is not compiled again.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch_mydev import _C

_FEW = 4  #: kernels that are worth a run of the compiler


_calls: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("calls", default=None)


@contextlib.contextmanager
def collected_calls() -> Iterator[list[str]]:
    """The names of the operators that code which is loaded meanwhile leaves to the device."""
    calls: list[str] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def language_of(index: int) -> _C.KernelLanguage:
    """The language that a device's kernels are generated in. The device must have a compiler for a dialect of it."""
    language = _C.kernel_language(index)
    assert language is not None
    return language


class Kernel:
    """A kernel that generated code launches once its library is compiled."""

    def __init__(
        self, name: str, counts: Sequence[int], numbers: str, source: str, language: _C.KernelLanguage
    ) -> None:
        self.name = name
        self.source = source
        self._counts = counts
        self._numbers = numbers
        self._language = language
        self._launch: Any = None

    def take(self, module: Any) -> None:
        results, updated, operands = self._counts
        kernel = module.kernel(self.name, results=results, updated=updated, operands=operands, numbers=self._numbers)
        self._launch = kernel.launch

    def launch_elements(self, tensors: Sequence[Any], numbers: Sequence[Any], rows: int, length: int) -> None:
        """A thread for each element of each row."""
        self._launch_pieces(tensors, numbers, rows, length, self._language.elements)

    def launch_block(self, tensors: Sequence[Any], numbers: Sequence[Any], rows: int, length: int) -> None:
        """A thread for each result of each row."""
        self._launch_pieces(tensors, numbers, rows, length, self._language.block)

    def launch_groups(self, tensors: Sequence[Any], numbers: Sequence[Any], rows: int, length: int) -> None:
        """A group for each result."""
        if rows > 0:
            self._launch(
                tensors, numbers, self._language.grid(rows), (self._language.threads(self._language.lanes), 1, 1)
            )

    def _launch_pieces(
        self, tensors: Sequence[Any], numbers: Sequence[Any], rows: int, length: int, piece: int
    ) -> None:
        groups = rows * -(-length // piece)
        if groups > 0:
            self._launch(tensors, numbers, self._language.grid(groups), (self._language.threads(piece), 1, 1))


class KernelLibrary:
    """The generated kernels of a device, which are compiled together."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._kernels: list[Kernel] = []
        self.calls: list[str] = []  #: the device's own operators that the graph's code calls
        self._language = language_of(index)

    def kernel(self, name: str, counts: Sequence[int], numbers: str, source: str) -> Kernel:
        kernel = Kernel(name, counts, numbers, source, self._language)
        self._kernels.append(kernel)
        return kernel

    def compile(self) -> None:
        """Compiles the kernels. Raises the compiler's errors."""
        if (collecting := _calls.get()) is not None:
            collecting.extend(self.calls)
        kernels, self._kernels = self._kernels, []
        size = max(_FEW, -(-len(kernels) // (os.cpu_count() or 1)))
        parts = [kernels[begin : begin + size] for begin in range(0, len(kernels), size)]
        if len(parts) == 1:
            self._compile_part(parts[0])
        elif parts:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(self._compile_part, parts))

    def _compile_part(self, kernels: Sequence[Kernel]) -> None:
        source = self._language.source + '#line 1 "graph"\n' + "".join(kernel.source for kernel in kernels)
        module = _C.compile_kernels(self._index, self._language.name, source)
        for kernel in kernels:
            kernel.take(module)
