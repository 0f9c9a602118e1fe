"""How a kernel goes through a range: flat, or row by row if its variables are those of rows and the place in a row.

Inductor counts a range by one index; the variables of its dimensions are quotients and remainders of it. If the
innermost dimension is long enough, two loops do the same without a division for each element, and the inner one goes
through memory in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot
from torch._inductor.utils import sympy_index_symbol
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

_SHORT_ROW = 16  #: elements, below which a row is not worth a loop


@dataclass
class Loop:
    """One range: ``rows`` times ``length`` elements."""

    root: IterationRangesRoot
    rows: sympy.Expr
    length: sympy.Expr
    row: sympy.Symbol
    place: sympy.Symbol
    of_row: list[tuple[str, sympy.Expr]]  #: variables that are the same in a row
    of_element: list[tuple[str, sympy.Expr]]

    @property
    def is_flat(self) -> bool:
        return bool(self.rows == 1)

    def is_along(self, index: sympy.Expr) -> bool:
        """Whether an index counts a row's elements one by one."""
        places = {str(self.place), *(name for name, expr in self.of_element if expr == self.place)}
        others = {name for name, _ in self.of_element} - places
        counting = [symbol for symbol in index.free_symbols if str(symbol) in places]
        if len(counting) != 1 or not others.isdisjoint(map(str, index.free_symbols)):
            return False
        return counting[0] not in (index - counting[0]).free_symbols


def make_loop(root: IterationRangesRoot, entries: Sequence[IterationRangesEntry]) -> Loop:
    """``entries``: the variables of the range that are used."""
    row, place = sympy_index_symbol(f"{root.prefix}row"), sympy_index_symbol(f"{root.prefix}place")
    whole = root.index_sym()
    length = _row_length(root, entries)
    if length is None:
        elements = [(entry.name, entry.expr) for entry in entries]
        return Loop(root, sympy.S.One, root.numel, row, whole, [], elements)
    of_row: list[tuple[str, sympy.Expr]] = []
    of_element: list[tuple[str, sympy.Expr]] = [(str(whole), row * length + place)]
    for entry in entries:
        if entry.divisor == 1 and entry.length == length:
            of_element.append((entry.name, place))
        elif entry.divisor == 1:
            of_element.append((entry.name, entry.expr))
        else:
            divisor = FloorDiv(entry.divisor, length)
            outermost = V.graph.sizevars.statically_known_equals(entry.divisor * entry.length, root.numel)
            of_row.append(
                (entry.name, FloorDiv(row, divisor) if outermost else ModularIndexing(row, divisor, entry.length))
            )
    return Loop(root, FloorDiv(root.numel, length), length, row, place, of_row, of_element)


def _row_length(root: IterationRangesRoot, entries: Sequence[IterationRangesEntry]) -> sympy.Expr | None:
    """The count of the variables of elements; without any, the length for which those of rows stay the same."""
    sizes = V.graph.sizevars
    whole = root.numel
    outer = [entry.divisor for entry in entries if entry.divisor != 1]
    inner = {
        entry.length
        for entry in entries
        if entry.divisor == 1 and not sizes.statically_known_equals(entry.length, whole)
    }
    if len(inner) > 1:
        return None
    for length in inner or outer:
        worth_a_loop = not isinstance(length, sympy.Integer) or length >= _SHORT_ROW
        divides = all(sizes.statically_known_multiple_of(size, length) for size in (whole, *outer, *inner))
        if worth_a_loop and divides:
            return length
    return None
