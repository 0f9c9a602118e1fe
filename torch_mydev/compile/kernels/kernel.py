"""One generated kernel: Inductor's nodes as a function in the kernels' language (csrc/kernels/language).

A kernel has one of three forms. Without reductions, each element has a thread. With them, each result has a group,
whose threads share the reduced range (``by_group``), or a thread, which goes through that range alone. The last form is
for results that lie side by side in memory while the elements that are reduced for one of them do not.

A kernel with reductions is a list of sections: loops over the reduced range, and the code between them. A variable of
a section is gone behind it, except results of reductions and, by group, variables outside of loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import (
    CSE,
    CSEVariable,
    DeferredLine,
    InplacedBuffer,
    PythonPrinter,
)
from torch._inductor.codegen.simd import IterationRanges, IterationRangesEntry, IterationRangesRoot, SIMDKernel
from torch._inductor.utils import IndentedBuffer, prefix_is_reduction, upcast_compute_type
from torch._inductor.virtualized import OpsValue, V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.value_ranges import ValueRanges

from torch_mydev.compile.kernels.accumulators import Accumulator, make_accumulator
from torch_mydev.compile.kernels.kept_rows import KeptRows
from torch_mydev.compile.kernels.library import language_of
from torch_mydev.compile.kernels.loops import Loop, make_loop
from torch_mydev.compile.kernels.operators import Operators
from torch_mydev.compile.kernels.printer import IndexPrinter
from torch_mydev.compile.kernels.quotients import as_products
from torch_mydev.compile.kernels.signature import (
    Signature,
    places,
    reading_pointer,
    reading_pointers,
    signature_of,
)
from torch_mydev.compile.kernels.types import converted, loaded, memory_type, stored, value_type
from torch_mydev.compile.kernels.vectors import as_vectors

NAME = "KERNEL_NAME"  #: in the source, until the kernel has one
_FEW = 16  #: elements of a reduced range that are not worth a group
_MOST_LANES = 64  #: results that the smallest block of a language has room for

#: The dtypes that kernels of several threads can add to one element of.
_ATOMIC = (torch.float32, torch.float64, torch.int32, torch.int64, torch.float16, torch.bfloat16)


class TypedCSE(CSE[CSEVariable, str]):
    """Declares each variable with its type, and knows what it is."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.expressions: dict[str, str] = {}  #: what variables are, but for those of scopes

    def generate(
        self,
        buffer: IndentedBuffer,
        expr: Any,
        *,
        bounds: ValueRanges[Any] = ValueRanges.unknown(),  # noqa: B008
        write: bool = True,
        assignment: bool = True,
        dtype: torch.dtype | None = None,
        shape: Any = None,
    ) -> CSEVariable:
        declares = assignment and not isinstance(expr, (CSEVariable, OpsValue))
        if declares:
            assert dtype is not None, f"{expr} has no type"
            self.prefix = value_type(dtype) + " "
        variable = super().generate(
            buffer, expr, bounds=bounds, write=write, assignment=assignment, dtype=dtype, shape=shape
        )
        if declares:
            self.expressions.setdefault(str(variable), str(expr))
        return variable

    def clone(self) -> TypedCSE:
        copy = super().clone()
        copy.name_prefix = self.name_prefix  # scopes in scopes have names of their own
        return copy


@dataclass
class Section:
    """A part of a kernel's body."""

    is_loop: bool
    before: list[CSEVariable]  #: results of earlier reductions
    entries: list[IterationRangesEntry]  #: of the reduced range
    body: IndentedBuffer
    accumulators: list[Accumulator]
    results: list[tuple[CSEVariable, str]]  #: of the reductions: variables and array elements
    stores: IndentedBuffer  #: of these results


class GeneratedKernel(SIMDKernel[CSEVariable]):
    """A kernel that Inductor fills with the operations of some nodes."""

    overrides = Operators
    suffix = ";"
    pexpr = staticmethod(PythonPrinter().doprint)
    sexpr = kexpr = staticmethod(IndexPrinter().doprint)

    def __init__(self, tiling: dict[str, sympy.Expr], **options: Any) -> None:
        super().__init__(tiling, **options)
        self.cse = TypedCSE("", self.suffix)
        for tree in self.range_trees:
            tree.is_loop = _is_reduced(tree)  # sections end where reductions do
        self.language = language_of(V.graph.get_current_device_or_throw().index or 0)
        self.reduces = self.features.is_reduction()
        self.by_group = self.reduces
        self.checks = False
        self.signature = Signature()
        self.work: tuple[str, sympy.Expr, sympy.Expr] | None = None  #: kind of groups, rows, length of a row
        self._sections: list[Section] = []
        self._accumulators: list[Accumulator] = []
        self._results: list[tuple[CSEVariable, str]] = []
        self._all_results: list[CSEVariable] = []
        self._result_stores = IndentedBuffer()
        self._entries: dict[str, IterationRangesEntry] = {}
        self._ids = itertools.count()
        self._kept: OrderedSet[CSEVariable] = OrderedSet()
        self._host_numbers: dict[str, str] = {}
        self._elements: dict[str, tuple[torch.dtype, sympy.Expr]] = {}  #: of memory, by their text
        self._updated: set[str] = set()  #: buffers of which some elements stay as they were
        self._read_places: set[str] = set()  #: buffers that are read, and then others computed in their place
        if sum(_is_reduced(tree) for tree in self.range_trees) > 1:
            raise NotImplementedError("generated kernels reduce one range")

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return value_type(dtype)

    @property
    def index_dtype(self) -> str:
        """The language's type of an index that has this dtype's range."""
        return f"index_{super().index_dtype}"

    @property
    def reduced(self) -> IterationRangesRoot:
        return next(tree for tree in self.range_trees if _is_reduced(tree))

    # --- what nodes ask for ---------------------------------------------------------------------------------------

    def finalize_indexing(self, indices: Sequence[sympy.Expr]) -> None:
        if not self.reduces:
            return
        x, r = (tree.index_sym() for tree in (self.range_trees[-2], self.reduced))
        along_x = along_r = 0
        for index in indices:
            strides = self.get_strides_of_load(index)
            along_x += strides[x] == 1 and strides[r] != 0
            along_r += strides[r] == 1
        numel = self.reduced.numel
        short = isinstance(numel, sympy.Integer) and numel <= _FEW and self.range_trees[-2].numel != 1
        self.by_group = not short and along_r >= along_x

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        self._entries[entry.name] = entry

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        dtype = V.graph.get_dtype(name)
        if _is_on_host(name):
            element = self._host_number(name, dtype)
            return self.cse.generate(self.loads, element, dtype=upcast_compute_type(dtype), shape=())
        element = self._element(self._reading_pointer(name), self.prepare_indexing(index), dtype)
        return self.cse.generate(self.loads, loaded(element, dtype), dtype=upcast_compute_type(dtype), shape=())

    def _reading_pointer(self, name: str) -> str:
        real = V.graph.scheduler.mutation_real_name.get(name, name)
        place = self.args.inplace_buffers.get(real)
        made_here = real in self.store_buffer_names
        if isinstance(place, InplacedBuffer) and real == place.other_names[0] and not made_here:
            self._read_places.add(real)
            if name == real:
                return reading_pointer(place)
        return self.args.input(name)

    def _host_number(self, name: str, dtype: torch.dtype) -> str:
        number = self._host_numbers.setdefault(name, f"number{len(self._host_numbers)}")
        return f"({number} != 0)" if dtype is torch.bool else f"(({value_type(dtype)})({number}))"

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        line = self._store_line(name, index, value, mode)
        if self.reduces and self.by_group and not self.inside_reduction:
            if name in self.args.inplace_buffers:  # all of the group have read what was there
                self.stores.writeline(DeferredLine(name, "GROUP_BARRIER;"))
            line = f"ONCE {line}"
        self.stores.writeline(DeferredLine(name, line))

    def _store_line(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> str:
        dtype = V.graph.get_dtype(name)
        pointer = self.args.output(name)
        real = V.graph.scheduler.mutation_real_name.get(name, name)
        if real != name or mode is not None:
            self._updated.add(real)
        element = self._element(pointer, self.prepare_indexing(index), dtype)
        if mode is None:
            return f"{element} = {stored(value, dtype)};"
        if mode != "atomic_add" or dtype not in _ATOMIC:
            raise NotImplementedError(f"generated kernels have no {mode} of {dtype}")
        wide = dtype in (torch.float64, torch.int64)
        if dtype is not torch.int32 and not (self.language.atomic_s64 if wide else self.language.atomic_f32):
            raise NotImplementedError(f"the device's compiler has no atomic addition of {dtype}")
        return f"atomic_add_{memory_type(dtype)}(&{element}, {converted(value, upcast_compute_type(dtype))});"

    def _element(self, pointer: str, index: sympy.Expr, dtype: torch.dtype) -> str:
        element = f"{pointer}[{self.index_to_str(index)}]"
        self._elements[element] = (dtype, index)
        return element

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        prior, self.inside_reduction = self.inside_reduction, False
        try:
            line = self._store_line(name, index, value)
        finally:
            self.inside_reduction = prior
        self._result_stores.writeline(DeferredLine(name, f"ONCE {line}" if self.by_group else line))

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: Any, value: Any) -> Any:
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            self.cse.reduction_cache[key] = self._reduction(dtype, src_dtype, reduction_type, value)
        return self.cse.reduction_cache[key]

    def _reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: Any, value: Any) -> Any:
        assert self.inside_reduction
        name = f"acc{next(self._ids)}"
        position = str(self.reduced.index_sym())
        accumulator = make_accumulator(name, dtype, src_dtype, reduction_type, value, position)
        self._accumulators.append(accumulator)
        self.compute.writelines(accumulator.update)
        results = []
        for array, kind in accumulator.result_arrays():
            wanted = upcast_compute_type(dtype)
            result = self.cse.newvar(dtype=wanted, shape=())
            element = f"{array}[{'0' if self.by_group else 'lane'}]"
            if wanted is torch.bool:
                element = f"({element} != 0)"
            elif value_type(wanted) != value_type(kind):
                element = f"({value_type(wanted)})({element})"
            self._results.append((result, element))
            results.append(result)
        self._kept.update(results)
        return results[0] if len(results) == 1 else tuple(results)

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if not (lower or upper):
            return
        # The variable is put right, so that nothing is touched that must not be; the launch fails.
        line = f"CHECK_INDEX({self.index_to_str(expr)}, {self.index_to_str(size)});"
        self.checks = True
        self.compute.writeline(line)

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        self.checks = True
        self.compute.writeline(f"CHECK({cond});")

    # --- sections -------------------------------------------------------------------------------------------------

    def codegen_body(self) -> None:
        buffers = (self.loads, self.compute, self.stores)
        if not any((*buffers, self._accumulators, self._result_stores)):
            return
        is_loop = self.reduces and self.inside_reduction
        body = IndentedBuffer()
        for buffer in buffers:
            body.splice(buffer)
            buffer.clear()
        entries = [entry for entry in self._entries.values() if _is_reduced(entry)]
        section = Section(
            is_loop,
            list(self._all_results),
            entries,
            body,
            self._accumulators,
            self._results,
            self._result_stores,
        )
        self._sections.append(section)
        self._all_results += [result for result, _ in self._results]
        self._accumulators, self._results, self._result_stores = [], [], IndentedBuffer()
        if not self.reduces:
            return
        if self.by_group and not is_loop:
            self._kept.update(self.cse._cache.values())
            self._kept.update(self.cse.store_cache.values())
        self.cse.invalidate(self._kept)
        for entry in entries:
            del self._entries[entry.name]
            entry.cache_clear()

    # --- text -----------------------------------------------------------------------------------------------------

    def codegen_kernel(self, name: str = NAME) -> str:
        self.codegen_body()
        body = self._reduction_text() if self.reduces else self._pointwise_text()
        self.signature = signature_of(
            self.args, self._host_numbers, self.removed_buffers, self._updated | self._read_places
        )
        if not self.language.f64 and any(kind == "f" for _, _, kind in self.signature.numbers):
            raise NotImplementedError("the device's compiler takes no number in float64")
        code = IndentedBuffer()
        code.writeline(f"KERNEL({name}, {', '.join(self.signature.declarations())}) {{")
        with code.indent():
            if self.by_group:
                code.writeline("SCRATCH;")
            if self.checks:
                code.writeline("CHECKS_OPEN;")
            code.writelines([*self.signature.pointers(), *reading_pointers(self.args, self._read_places)])
            for size in self.args.sizevars.values():
                if not size.startswith("f"):
                    code.writeline(f"const {self.index_dtype} {size} = ({self.index_dtype}){size}_given;")
            code.splice(body)
            if self.checks:
                code.writeline("CHECKS_CLOSE;")
        code.writeline("}")
        return code.getvalue()

    def _text(self, expr: sympy.Expr) -> str:
        return self.index_to_str(expr)

    def _declare(self, code: IndentedBuffer, variables: Sequence[tuple[str, sympy.Expr]]) -> None:
        for name, expr in variables:
            code.writeline(f"const {self.index_dtype} {name} = {self._text(expr)};")

    def _rows(self, kind: str) -> tuple[IndentedBuffer, Loop]:
        """The loop over the range of results, or of elements, up to what its rows have in common."""
        trees = [tree for tree in self.range_trees if not _is_reduced(tree)]
        entries = [entry for entry in self._entries.values() if not _is_reduced(entry)]
        *outer, last = trees
        loop = make_loop(last, [entry for entry in entries if entry.root is last])
        rows = loop.rows
        for tree in outer:
            rows = rows * tree.numel
        self.work = (kind, rows, loop.length)
        code = IndentedBuffer()
        code.writeline(f"ROWS_OPEN({self.index_dtype}, row, {self._text(rows)}, {self._text(loop.length)}, {kind})")
        row = sympy.Symbol("row", integer=True, nonnegative=True)
        rest: sympy.Expr = row
        variables = []
        for tree, size in [(last, loop.rows), *((tree, tree.numel) for tree in reversed(outer))]:
            symbol = loop.row if tree is last else tree.index_sym()
            outermost = tree is trees[0]
            expr = f"{self._text(rest)}" if outermost else f"({self._text(rest)}) % ({self._text(size)})"
            variables.append(f"const {self.index_dtype} {symbol} = {expr};")
            if not outermost:
                quotient = sympy.Symbol(f"row_of_{tree.prefix}", integer=True, nonnegative=True)
                variables.append(f"const {self.index_dtype} {quotient} = ({self._text(rest)}) / ({self._text(size)});")
                rest = quotient
        code.writelines(variables)
        for tree in outer:
            self._declare(code, [(entry.name, entry.expr) for entry in entries if entry.root is tree])
        self._declare(code, loop.of_row)
        return code, loop

    def _pointwise_text(self) -> IndentedBuffer:
        code, loop = self._rows("ELEMENTS")
        code.writeline(f"PLACES_OPEN({self.index_dtype}, {loop.place})")
        with code.indent():
            self._declare(code, loop.of_element)
            for section in self._sections:
                code.splice(section.body)
        code.writeline("PLACES_CLOSE")
        code.writeline("ROWS_CLOSE")
        return code

    def _reduction_text(self) -> IndentedBuffer:
        return self._text_by_group() if self.by_group else self._text_by_lane()

    def _text_by_group(self) -> IndentedBuffer:
        (results,) = (tree for tree in self.range_trees if not _is_reduced(tree))
        self.work = ("GROUPS", results.numel, sympy.S.One)
        code = IndentedBuffer()
        code.writelines(self._keep_rows())
        code.writeline(f"GROUPS_OPEN({self.index_dtype}, {results.index_sym()}, {self._text(results.numel)})")
        self._declare(code, [(e.name, e.expr) for e in self._entries.values() if not _is_reduced(e)])
        for section in self._sections:
            if not section.is_loop:
                code.splice(section.body)
                code.writeline("GROUP_BARRIER;")
                continue
            for accumulator in section.accumulators:
                code.writelines(accumulator.declarations("LANES"))
            loop = make_loop(self.reduced, section.entries)
            t = self.index_dtype
            if not loop.is_flat:
                code.writeline(f"for ({t} {loop.row} = 0; {loop.row} < {self._text(loop.rows)}; ++{loop.row}) {{")
                self._declare(code, loop.of_row)
            kind, body = self._loop_body(loop, section.body.getvalue().splitlines())
            code.writeline(f"{kind}_OPEN({t}, {loop.place}, {self._text(loop.length)})")
            with code.indent():
                self._declare(code, loop.of_element)
                code.writelines(body)
            code.writeline(f"{kind}_CLOSE({self._text(loop.length)})")
            if not loop.is_flat:
                code.writeline("}")
            code.writelines([accumulator.combination() for accumulator in section.accumulators])
            self._declare_results(code, section.results)
            code.splice(section.stores)
        code.writeline("GROUPS_CLOSE")
        return code

    def _loop_body(self, loop: Loop, lines: Sequence[str]) -> tuple[str, list[str]]:
        """The name of the loop in the language, and its lines."""
        changing = {str(loop.place), *(name for name, _ in loop.of_element)}

        def lies(element: str) -> bool:
            dtype, index = self._elements.get(element, (None, None))
            return dtype is torch.float32 and index is not None and loop.is_along(index)

        lines = as_products(lines, changing)
        vectors = as_vectors(lines, changing, lies)
        return ("LOOP", lines) if vectors is None else ("VECTORS", vectors)

    def _keep_rows(self) -> list[str]:
        """Lets loops use what earlier ones computed; gives the declarations of what is kept for that."""
        loops = [section for section in self._sections if section.is_loop]
        length = self.reduced.numel
        if len(loops) < 2 or not isinstance(length, sympy.Integer):
            return []
        assert isinstance(self.cse, TypedCSE)
        written = [str(pointer) for pointer in self.args.output_buffers.values()]
        written += [place.inner_name for place in places(self.args)]
        rows = KeptRows(self.cse.expressions, written, self.reduced.prefix, int(length))
        bodies = rows.share([section.body.getvalue().splitlines() for section in loops])
        for section, body in zip(loops, bodies, strict=True):
            section.body = IndentedBuffer()
            section.body.writelines(body)
        return rows.declarations

    def _text_by_lane(self) -> IndentedBuffer:
        code, loop = self._rows("BLOCK")
        t = self.index_dtype
        elements = {variable: element for section in self._sections for variable, element in section.results}
        for section in self._sections:
            for accumulator in section.accumulators:
                code.writelines(accumulator.declarations("BLOCK"))
            if section.is_loop:
                index = self.reduced.index_sym()
                code.writeline(f"for ({t} {index} = 0; {index} < {self._text(self.reduced.numel)}; ++{index}) {{")
                self._declare(code, [(entry.name, entry.expr) for entry in section.entries])
            before = [(variable, elements[variable]) for variable in section.before]
            self._lanes(code, loop, before, section.body)
            if section.is_loop:
                code.writeline("}")
            if section.stores:
                self._lanes(code, loop, [*before, *section.results], section.stores)
        code.writeline("ROWS_CLOSE")
        return code

    def _lanes(
        self, code: IndentedBuffer, loop: Loop, results: list[tuple[CSEVariable, str]], body: IndentedBuffer
    ) -> None:
        code.writeline(f"LANES_OPEN({self.index_dtype}, {loop.place})")
        with code.indent():
            self._declare(code, loop.of_element)
            self._declare_results(code, results)
            code.splice(body)
        length = loop.length
        few = isinstance(length, sympy.Integer) and length < _MOST_LANES  # then the loop has a constant length
        code.writeline(f"LANES_CLOSE({length if few else 'BLOCK'})")

    def _declare_results(self, code: IndentedBuffer, results: list[tuple[CSEVariable, str]]) -> None:
        for variable, element in results:
            assert variable.dtype is not None
            code.writeline(f"{value_type(variable.dtype)} {variable} = {element};")

    # --- the call -----------------------------------------------------------------------------------------------------

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        assert self.work is not None
        wrapper = V.graph.wrapper_code
        kind, rows, length = self.work
        for symbol in (*self.args.sizevars, *rows.free_symbols, *length.free_symbols):
            wrapper.ensure_size_computed(symbol)
        tensors = "".join(f"{tensor}, " for tensor in self.signature.tensors())
        numbers = "".join(f"{value}, " for value, _, _ in self.signature.numbers)
        work = f"{self.pexpr(rows)}, {self.pexpr(length)}"
        wrapper.writeline(  # type: ignore[no-untyped-call]
            f"{name}.launch_{kind.lower()}(({tensors}), ({numbers}), {work})"
        )


def _is_reduced(ranges: IterationRanges) -> bool:
    return prefix_is_reduction(ranges.prefix)


def _is_on_host(name: str) -> bool:
    if name in V.graph.constants:
        return V.graph.constants[name].device.type == "cpu"
    buffer = V.graph.try_get_buffer(name)
    device = None if buffer is None else buffer.get_device()
    return device is not None and device.type == "cpu"
