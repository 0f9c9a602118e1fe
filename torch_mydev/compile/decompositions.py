"""How operators are taken apart before Inductor compiles a graph of the device: as for the CPU, with a few exceptions.

Under Inductor's setting ``fallback_random``, operators that draw random numbers stay whole, and so give eager's own
numbers. The cells of LSTM and GRU are operators that the CPU does not have (csrc/aten/ops/recurrent.cpp); they become
pointwise operators, which Inductor fuses. Operators whose kernels on the device are faster than generated code stay
whole (device_kernels.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._ops import OpOverload, OpOverloadPacket

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
class TableOfVersion:
    """Makes the table; part of the keys of Inductor's cache, which so never gives another version's code."""

    version: str

    def __call__(self) -> DecompositionTable:
        return DecompositionTable()


def _whole_on_the_device() -> Iterator[OpOverloadPacket[Any, Any]]:
    for op, kernel in DEVICE_KERNELS.items():
        # With cpp_wrapper, no operator is kept as a device call.
        if kernel.whole and not (kernel.trusts_layouts and config.cpp_wrapper):
            yield op.overloadpacket


def _draws(op: object) -> bool:
    return isinstance(op, OpOverload) and torch.Tag.nondeterministic_seeded in op.tags


def _with_bias(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    gates = _with_bias(input_gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    into, forget, cell, out = gates.chunk(4, 1)
    into, forget, cell, out = into.sigmoid(), forget.sigmoid(), cell.tanh(), out.sigmoid()
    cy = forget * cx + into * cell
    return out * cy.tanh(), cy, torch.cat([into, forget, cell, out], 1)


def _lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    into, forget, cell, out = workspace.chunk(4, 1)
    tanh_cy = cy.tanh()
    if grad_hy is not None:
        grad_c = aten.tanh_backward(grad_hy * out, tanh_cy)
        grad_c = grad_c if grad_cy is None else grad_c + grad_cy
        grad_out = aten.sigmoid_backward(grad_hy * tanh_cy, out)
    elif grad_cy is not None:
        grad_c, grad_out = grad_cy, torch.zeros_like(out)
    else:
        return None, None, None
    grad_into = aten.sigmoid_backward(grad_c * cell, into)
    grad_forget = aten.sigmoid_backward(grad_c * cx, forget)
    grad_cell = aten.tanh_backward(grad_c * into, cell)
    grad_gates = torch.cat([grad_into, grad_forget, grad_cell, grad_out], 1)
    return grad_gates, grad_c * forget, grad_gates.sum(0) if has_bias else None


def _gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    into_reset, into_update, into_new = _with_bias(input_gates, input_bias).chunk(3, 1)
    hidden_reset, hidden_update, hidden_new = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (into_reset + hidden_reset).sigmoid(), (into_update + hidden_update).sigmoid()
    fresh = (into_new + reset * hidden_new).tanh()
    return fresh + update * (hx - fresh), torch.cat([reset, update, fresh, hx, hidden_new], 1)


def _gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    reset, update, fresh, hx, hidden_new = workspace.chunk(5, 1)
    grad_hx = grad_hy * update
    grad_new = aten.tanh_backward(grad_hy - grad_hx, fresh)
    grad_update = aten.sigmoid_backward(grad_hy * (hx - fresh), update)
    grad_reset = aten.sigmoid_backward(grad_new * hidden_new, reset)
    grad_input = torch.cat([grad_reset, grad_update, grad_new], 1)
    grad_hidden = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    if not has_bias:
        return grad_input, grad_hidden, grad_hx, None, None
    return grad_input, grad_hidden, grad_hx, grad_input.sum(0), grad_hidden.sum(0)


_CELLS: dict[Any, Callable[..., Any]] = {
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
}
