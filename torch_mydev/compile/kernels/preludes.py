"""The beginnings of generated kernels' sources: they define the kernels' language in C++, OpenCL C and CUDA C.

The language is C with these words: ``KERNEL``, ``IN``, ``OUT`` for a function and its pointers; ``ROWS_OPEN`` and
``PLACES_OPEN`` or ``LANES_OPEN`` for the elements of rows, ``GROUPS_OPEN`` and ``LOOP_OPEN`` for groups that share a
range, and ``VECTORS_OPEN`` where elements may be taken several at once, each ``VECTOR_AT``; ``ACCUMULATOR`` and
``GROUP`` for reductions; ``KEPT`` for what a group has of its own; ``CHECK_INDEX`` for what must hold. On the host a
group is a loop that the compiler makes vectors of, and a launch's groups are shared by threads; elsewhere a group's
threads are the device's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_DIRECTORY = Path(__file__).parent / "preludes"


@dataclass(frozen=True)
class Prelude:
    """One language."""

    text: str
    elements: int  #: of a group, without reductions
    block: int  #: results of a group whose threads each reduce alone
    lanes: int  #: threads of a group that reduces together
    loops: bool  #: whether a group is a loop, of one thread

    def threads(self, size: int) -> int:
        return 1 if self.loops else size


def _prelude(name: str, elements: int, block: int, lanes: int, *, loops: bool) -> Prelude:
    sizes = f"enum {{ ELEMENTS = {elements}, BLOCK = {block}, LANES = {lanes} }};\n"
    files = (f"{name}.h", *(() if loops else ("device_loops.h",)), "functions.h")
    parts = [(_DIRECTORY / file).read_text() for file in files]
    return Prelude(sizes + "".join(parts) + '#line 1 "graph"\n', elements, block, lanes, loops)


#: The preludes, by the name that drivers give the language.
PRELUDES = {
    "c++": _prelude("cpp", 1024, 128, 64, loops=True),
    "cuda-c": _prelude("cuda", 256, 128, 128, loops=False),
    "opencl-c": _prelude("opencl", 64, 64, 64, loops=False),
}
