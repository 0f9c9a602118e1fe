"""Operators of the device that are the CPU's under another name, rewritten in a graph that becomes CPU code.

Attention on the device is the CPU's flash attention behind PyTorch's operator for backends of their own
(csrc/aten/ops/linear/attention.cpp), which has more results: those that the CPU's does not have are empty states of
random numbers, since there is no dropout.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from torch_mydev.compile import collectives

aten = torch.ops.aten

_ATTENTION_DEFAULTS = (None, None, None, None, 0.0, False, False)  #: query, key, value, attn_bias, dropout_p, is_causal
_ATTENTION_RESULTS = 2  #: output and logsumexp: the first ones of both operators


def _rewrite_attention(node: Node) -> None:
    query, key, value, bias, dropout, is_causal = [*node.args, *_ATTENTION_DEFAULTS[len(node.args) :]][:6]
    graph = node.graph
    results: dict[Node, Any] = {user: user.args[1] for user in node.users}
    with graph.inserting_before(node):
        attention = graph.call_function(
            aten._scaled_dot_product_flash_attention_for_cpu.default,
            (query, key, value, dropout, is_causal),
            {"attn_mask": bias, "scale": node.kwargs.get("scale")},
        )
        attention.meta.update(node.meta)
        attention.meta["val"] = node.meta["val"][:_ATTENTION_RESULTS]
    for user, index in results.items():
        assert user.target is operator.getitem
        if index < _ATTENTION_RESULTS:
            user.args = (attention, index)
        else:
            user.replace_all_uses_with(_without_dropout(user))
            graph.erase_node(user)
    graph.erase_node(node)


def _without_dropout(result: Node) -> Any:
    """A substitute for a result that the CPU's attention does not have: a length, or a random state of zeros."""
    value = result.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return value
    with result.graph.inserting_before(result):
        state = result.graph.call_function(
            aten.full.default, (list(value.shape), 0), {"dtype": value.dtype, "device": torch.device("cpu")}
        )
    state.meta["val"] = value
    return state


def _rewrite_attention_backward(node: Node) -> None:
    # grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
    # dropout_p, is_causal, philox_seed, philox_offset, *, scale
    grad, query, key, value, bias, _, out, logsumexp = node.args[:8]
    dropout, is_causal = node.args[12:14]
    node.target = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    node.args = (grad, query, key, value, out, logsumexp, dropout, is_causal)
    node.kwargs = {"attn_mask": bias, "scale": node.kwargs.get("scale")}
    node.meta["val"] = node.meta["val"][:3]


#: The functions that put the CPU's operator in place of each of these, or nothing.
REWRITES: dict[Any, Callable[[Node], None]] = {
    aten._scaled_dot_product_fused_attention_overrideable.default: _rewrite_attention,
    aten._scaled_dot_product_fused_attention_overrideable_backward.default: _rewrite_attention_backward,
    collectives.WAIT: collectives.remove_wait,
}
