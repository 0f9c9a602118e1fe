"""How operators are taken apart before Inductor compiles a graph of the device: as for the CPU, with a few exceptions.

Under Inductor's setting ``fallback_random``, operators that draw random numbers stay whole, and so give eager's own
numbers. The cells of LSTM and GRU are operators that the CPU does not have; they become pointwise operators, which
Inductor fuses (csrc/aten/ops/linear/recurrent_cells.h). Operators whose kernels on the device are faster than generated
code stay whole.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._ops import OpOverload, OpOverloadPacket

from torch_mydev import _C
from torch_mydev.compile.device_kernels import DEVICE_KERNELS

aten = torch.ops.aten

#: Is not taken apart on the CPU either; its decomposition asks for a code generator of the device to say so.
_WHOLE_ON_THE_CPU = aten.masked_scatter


class DecompositionTable(dict[Any, Callable[..., Any]]):
    """Inductor's table under its present settings, changed for the device."""

    def __init__(self) -> None:
        super().__init__(select_decomp_table())
        for packet in (_WHOLE_ON_THE_CPU, *_whole_on_the_device()):
            for overload in packet.overloads():  # type: ignore[no-untyped-call]
                self.pop(getattr(packet, overload), None)
        if config.fallback_random:
            for op in [op for op in self if _draws(op)]:
                del self[op]
        self.update(_CELLS)


@dataclass(frozen=True)
class _TableOfVersion:
    """Makes the table; part of the keys of Inductor's cache, which so never gives another version's code."""

    version: str

    def __call__(self) -> DecompositionTable:
        return DecompositionTable()


def give_table_a_version(options: dict[str, Any]) -> None:
    """Makes the table among the options of Inductor's compile_fx_inner one that its cache can hash, if it is ours."""
    if isinstance(options["get_decomp_fn"](), DecompositionTable):
        options["get_decomp_fn"] = _TableOfVersion(code_version())


@functools.cache
def code_version() -> str:
    """A digest of this package's code, on which generated code depends."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _whole_on_the_device() -> Iterator[OpOverloadPacket[Any, Any]]:
    for op, kernel in DEVICE_KERNELS.items():
        # With cpp_wrapper, no operator is kept as a device call.
        if kernel.whole and not (kernel.trusts_layouts and config.cpp_wrapper):
            yield op.overloadpacket


def _draws(op: object) -> bool:
    return isinstance(op, OpOverload) and torch.Tag.nondeterministic_seeded in op.tags


_CELLS: dict[Any, Callable[..., Any]] = {
    aten._thnn_fused_lstm_cell.default: _C.lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _C.lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: _C.gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _C.gru_cell_backward,
}
