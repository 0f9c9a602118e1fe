"""A generated kernel's parameters: results, updated buffers, operands, numbers, in this order.

A result is memory that the kernel fills. The kernel also reads an updated buffer, or writes only a part of it. Updated
buffers are arguments of the graph, and buffers in whose place others are computed, since nobody needs them any more
(Inductor's ``in_out_ptr``).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

import sympy
from torch._inductor.codegen.common import InplacedBuffer, KernelArgs, PythonPrinter, RemovedArg
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from torch_mydev.compile.kernels.types import memory_type

_python = PythonPrinter().doprint


@dataclass
class Signature:
    """The function's parameters, and what a call gives for them."""

    results: list[tuple[str, str]] = field(default_factory=list)  #: name outside; type in memory and name inside
    updated: list[tuple[str, str]] = field(default_factory=list)
    operands: list[tuple[str, str]] = field(default_factory=list)
    numbers: list[tuple[str, str, str]] = field(default_factory=list)  #: value outside, declaration, kind

    def declarations(self) -> list[str]:
        return self._pointers("PARAMETER") + [text for _, text, _ in self.numbers]

    def pointers(self) -> list[str]:
        """Lines that make pointers of what the parameters are."""
        return self._pointers("POINTER")

    def _pointers(self, kind: str) -> list[str]:
        written = [f"OUT_{kind}({text})" for _, text in [*self.results, *self.updated]]
        return written + [f"IN_{kind}({text})" for _, text in self.operands]

    def tensors(self) -> list[str]:
        return [name for name, _ in [*self.results, *self.updated, *self.operands]]


def signature_of(
    args: KernelArgs, host_numbers: Mapping[str, str], removed: Container[str], updated: Container[str]
) -> Signature:
    """``host_numbers``: names by buffers on the host. ``updated``: buffers that are read before others are computed in
    their place, or that keep some of their elements."""
    signature = Signature()
    for name, inner in args.output_buffers.items():
        if isinstance(inner, RemovedArg) or name in args.inplace_buffers or name in removed:
            continue
        fresh = name not in updated and _is_made_here(name) and name not in args.input_buffers
        group = signature.results if fresh else signature.updated
        group.append((name, f"{_memory_type(name)}, {inner}"))
    for place in places(args):
        last = place.other_names[-1]
        group = signature.updated if place.other_names[0] in updated else signature.results
        group.append((last, f"{_memory_type(last)}, {place.inner_name}"))
    for name, inner in args.input_buffers.items():
        if name not in args.output_buffers and name not in args.inplace_buffers:
            signature.operands.append((name, f"{_memory_type(name)}, {inner}"))
    for name, inner in host_numbers.items():
        kind = "f" if V.graph.get_dtype(name).is_floating_point else "i"
        signature.numbers.append((f"{name}.item()", f"{'f64' if kind == 'f' else 'i64'} {inner}", kind))
    for outer, inner in args.sizevars.items():
        if isinstance(outer, sympy.Symbol) and symbol_is_type(outer, SymT.UNBACKED_FLOAT):
            signature.numbers.append((_python(outer), f"f64 {inner}_given", "f"))
        else:
            signature.numbers.append((_python(outer), f"i64 {inner}_given", "i"))
    return signature


def places(args: KernelArgs) -> Iterator[InplacedBuffer]:
    """Each buffer that others are computed in the place of, once."""
    for name, place in args.inplace_buffers.items():
        if not isinstance(place, RemovedArg) and name == place.other_names[0]:
            yield place


def reading_pointers(args: KernelArgs, read: Container[str]) -> Iterator[str]:
    """Declarations of pointers for what is read before it is written. ``read``: the first buffers of such places."""
    for place in places(args):
        if (first := place.other_names[0]) in read:
            yield f"IN({_memory_type(first)}) {reading_pointer(place)} = {place.inner_name};"
    for name, inner in args.input_buffers.items():
        if isinstance(output := args.output_buffers.get(name), str):
            yield f"IN({_memory_type(name)}) {inner} = {output};"


def reading_pointer(place: InplacedBuffer) -> str:
    """The name of what the first buffer of a place is read by: as long as that is read, it is as it was."""
    return place.inner_name.replace("in_out", "old")


def _memory_type(name: str) -> str:
    return memory_type(V.graph.get_dtype(name))


def _is_made_here(name: str) -> bool:
    """Whether a buffer is this graph's own."""
    return name not in V.graph.graph_inputs and name not in V.graph.constants
