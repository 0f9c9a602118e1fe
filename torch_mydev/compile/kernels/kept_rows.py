"""Values of a group's row that several loops need: computed by the first, kept in the group's memory for the others.

Each loop of a kernel is text of its own, so it computes again what an earlier one had: a softmax its exponentials, for
their sum and for the quotients. A value that takes longer to compute than to keep is kept, in an array with an element
for each place of the row, as far as there is room.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

ROOM = 16 * 1024  #: bytes of a kernel: every device's groups have as much, and so has the host's first-level cache

_DEFINITION = re.compile(r"(\w+) (tmp\d+) = (.*);")  # "f32 tmp4 = exp_f32(tmp3);"
_VARIABLE = re.compile(r"\btmp\d+\b")
_POINTER = re.compile(r"\b\w+_ptr\d+\b")
_FUNCTION = re.compile(r"\b([a-z]\w*?)_[fiu]\d+\(")

_BITS = re.compile(r"[fiu](8|16|32|64)")  # truth values are not kept: not all languages say how large they are

_LONG = 8  #: operations that a function takes, or a division
_KEEPING = 3  #: operations that are as quick as keeping their result and reading it
#: Functions of few operations.
_SHORT = {"abs", "bf16_to", "copysign", "f16_to", "fma", "max", "min", "prod", "sum", "xor_sum"}


@dataclass
class _Definition:
    """A variable of one loop."""

    loop: int
    type: str
    is_one_line: bool
    first: str  #: the variable that had this value first
    work: frozenset[str]  #: what is done for each place of the row: variables that were first
    array: str | None = None  #: where its value is kept

    @property
    def bits(self) -> int | None:
        """The size of a number that can be kept; None if it cannot."""
        match = _BITS.fullmatch(self.type)
        return int(match[1]) if match and self.is_one_line else None


@dataclass
class KeptRows:
    """The kept values of one kernel."""

    expressions: Mapping[str, str]  #: what variables are, in terms of others: text that is the same for the same value
    written: Container[str]  #: pointers that the kernel writes to
    prefix: str  #: of variables that tell places of the row
    length: int  #: of the row
    declarations: list[str] = field(default_factory=list)  #: of arrays, outside of all loops
    _room: int = ROOM
    _definitions: dict[str, _Definition] = field(default_factory=dict)
    _firsts: dict[str, str] = field(default_factory=dict)  #: by what is computed
    _costs: dict[str, int] = field(default_factory=dict)  #: operations of variables that were first

    def share(self, loops: Sequence[Sequence[str]]) -> list[list[str]]:
        """The lines of the loops over a row, in order, without what an earlier loop computes."""
        for number, lines in enumerate(loops):
            for line in lines:
                self._define(number, line)
        backwards = [self._shared(number, loops[number]) for number in reversed(range(len(loops)))]
        return backwards[::-1]

    def _define(self, loop: int, line: str) -> None:
        match = _DEFINITION.fullmatch(line)
        if match is None or (expression := self.expressions.get(match[2])) is None:
            return
        kind, name, text = match.groups()
        operands = [self._definitions[each] for each in _VARIABLE.findall(expression) if each in self._definitions]
        what = _VARIABLE.sub(lambda each: self._first(each[0]), expression)
        changes = any(pointer in self.written for pointer in _POINTER.findall(expression))
        first = name if changes else self._firsts.setdefault(f"{kind} {what}", name)
        work = frozenset[str]().union(*(operand.work for operand in operands))
        if work or re.search(rf"\b{self.prefix}", expression):
            work |= {first}
        self._costs.setdefault(first, _operations(expression))
        self._definitions[name] = _Definition(loop, kind, text == expression, first, work)

    def _first(self, name: str) -> str:
        return self._definitions[name].first if name in self._definitions else name

    def _shared(self, loop: int, lines: Sequence[str]) -> list[str]:
        """Goes up from what the loop is for, to what is kept."""
        needed = {name for name, each in self._definitions.items() if each.loop == loop and each.array}
        result = []
        for line in reversed(lines):
            match = _DEFINITION.fullmatch(line)
            definition = self._definitions.get(name := match[2]) if match else None
            if definition and definition.is_one_line:
                if name not in needed:
                    continue
                if definition.array:
                    result.append(f"{definition.array}[{self.prefix}index] = {name};")
                elif array := self._kept(definition):
                    line = f"{definition.type} {name} = {array}[{self.prefix}index];"
            needed.update(_VARIABLE.findall(line))
            result.append(line)
        return result[::-1]

    def _kept(self, definition: _Definition) -> str | None:
        """The array that has the value from an earlier loop, if that is worth it and there is room."""
        first = self._definitions[definition.first]
        bits = first.bits
        operations = sum(self._costs[name] for name in definition.work)
        if bits is None or first.loop == definition.loop or operations <= _KEEPING:
            return None
        size = self.length * bits // 8
        if first.array is None and size <= self._room:
            self._room -= size
            first.array = f"kept{len(self.declarations)}"
            self.declarations.append(f"KEPT({first.type}, {first.array}, {self.length});")
        return first.array


def _operations(expression: str) -> int:
    long = [name for name in _FUNCTION.findall(expression) if name not in _SHORT]
    return 1 + _LONG * (len(long) + expression.count("/") + expression.count("%"))
