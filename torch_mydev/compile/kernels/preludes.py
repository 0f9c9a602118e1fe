"""The beginnings of generated kernels' sources: they define the kernels' language in C++, OpenCL C and CUDA C.

The language is C with these words: ``KERNEL``, ``IN``, ``OUT`` for a function and its pointers, ``IN_PARAMETER`` and
``OUT_PARAMETER`` for its parameters, which ``IN_POINTER`` and ``OUT_POINTER`` make pointers of; ``ROWS_OPEN`` and
``PLACES_OPEN`` or ``LANES_OPEN`` for the elements of rows, ``GROUPS_OPEN`` and ``LOOP_OPEN`` for groups that share a
range, and ``VECTORS_OPEN`` where elements may be taken several at once, each ``VECTOR_AT``; ``ACCUMULATOR`` and
``GROUP`` for reductions; ``KEPT`` for what a group has of its own; ``CHECK_INDEX`` for what must hold. On the host a
group is a loop that the compiler makes vectors of, and a launch's groups are shared by threads; elsewhere a group's
threads are the device's.

The properties of a device's compiler (``mydev_compiler_properties``) decide the sizes of groups and some definitions,
which come before the text of the language.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).parent / "preludes"
_MOST_LANES = 256  #: more take much of the memory that a group shares


@dataclass(frozen=True)
class Prelude:
    """One language, for one device."""

    text: str
    elements: int  #: of a group, without reductions
    block: int  #: results of a group whose threads each reduce alone
    lanes: int  #: threads of a group that reduces together; a power of two
    loops: bool  #: whether a group is a loop, of one thread
    groups: tuple[int, int] = (2**32 - 1, 2**32 - 1)  #: of a launch, at most, in two dimensions
    offsets: bool = False  #: whether a buffer is a base and an offset in bytes
    fault_word: bool = False
    f64: bool = True
    atomic_f32: bool = True
    atomic_s64: bool = True
    scalar_math: bool = False

    @property
    def source(self) -> str:
        sizes = f"enum {{ ELEMENTS = {self.elements}, BLOCK = {self.block}, LANES = {self.lanes} }};\n"
        facts = {
            "BASE_AND_OFFSET": self.offsets,
            "FAULT_WORD": self.fault_word,
            "HAS_F64": self.f64,
            "HAS_ATOMIC_S64": self.atomic_s64,
            "SCALAR_MATH": self.scalar_math,
        }
        return sizes + "".join(f"#define {name} {int(value)}\n" for name, value in facts.items()) + self.text

    def fitted(self, properties: dict[str, Any]) -> Prelude:
        """The language for a device whose compiler has these properties (``_C.compiler_properties``)."""
        known = {name: properties[name] for name in ("groups", "offsets", "fault_word", "f64", "atomic_f32")}
        known["atomic_s64"] = properties["atomic_s64"]
        if self.loops:
            return replace(self, **known)
        known["scalar_math"] = properties["scalar_math"]

        def size(usual: int) -> int:
            wanted: int = properties["preferred_threads"] or max(usual, properties["subgroup"])
            most: int = properties["group_threads"]
            return 1 << (min(wanted, most).bit_length() - 1)

        lanes = min(size(self.lanes), _MOST_LANES)
        return replace(self, elements=size(self.elements), block=size(self.block), lanes=lanes, **known)

    def threads(self, size: int) -> int:
        return 1 if self.loops else size

    def grid(self, groups: int) -> tuple[int, int, int]:
        """At least so many groups, in two dimensions where one has not room; kernels pass over those that are more.
        Raises ValueError if the device cannot run so many."""
        most, most_rows = self.groups
        rows = -(-groups // most)
        if rows > most_rows:
            raise ValueError(f"a generated kernel needs {groups} groups, and the device runs {most} x {most_rows}")
        return -(-groups // rows), rows, 1


def _prelude(name: str, elements: int, block: int, lanes: int, *, loops: bool) -> Prelude:
    files = ("parameters.h", f"{name}.h", *(() if loops else ("device_loops.h",)), "polynomials.h", "functions.h")
    text = "".join((_DIRECTORY / file).read_text() for file in files)
    return Prelude(f'{text}#line 1 "graph"\n', elements, block, lanes, loops, scalar_math=loops)


#: The preludes for devices of which nothing is known, by the name that drivers give the language.
PRELUDES = {
    "c++": _prelude("cpp", 1024, 128, 64, loops=True),
    "cuda-c": _prelude("cuda", 256, 128, 128, loops=False),
    "opencl-c": _prelude("opencl", 64, 64, 64, loops=False),
}
