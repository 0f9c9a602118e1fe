"""Operators of torch.library as kernels of their name, in a graph that is compiled for the device.

``acme::gelu_bias`` is the kernel ``acme.gelu_bias``, if there is one and a record of it takes the operands. Tensors are
its operands, in their order; all other arguments are its attributes, by name. JAX's composites meet their kernels by
the same rule (csrc/lowering/operators/composites.cpp). If no record takes the call, or sizes are symbols, the
operator stays, and computes what its author says.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.custom_call.discovery import discover
from torch_mydev.custom_call.operators import NAMESPACE

log = logging.getLogger(__name__)


def use_kernels_of_composites(graph: GraphModule) -> None:
    """Replaces operators by the kernels of their names."""
    calls = [node for node in graph.graph.nodes if isinstance(node.target, OpOverload)]
    if not calls:
        return
    discover()
    kernels = set(_C.kernel_names())
    replaced = False
    for node in calls:
        kernel = str(node.target.name()).partition(".")[0].replace("::", ".")
        if kernel not in kernels or kernel.startswith("mydev."):
            continue
        refusal = _use_kernel(node, _C.describe_kernel(kernel))
        if refusal:
            log.debug("torch.compile: %s is not the kernel '%s': %s", node.target, kernel, refusal)
        else:
            replaced = True
    if replaced:
        graph.recompile()


def _use_kernel(node: Node, record: Mapping[str, Any]) -> str:
    """Makes the call one of the kernel. Returns why it stays as it is, or ""."""
    device = _device_of(node)
    if record["operator"] is None or device is None:
        return "it is no operator, since its record has no signature" if device else "its operands are elsewhere"
    if node.target._schema.is_mutable:  # type: ignore[union-attr]
        return "the operator writes its operands"
    operands, attributes = _divide(node)
    if unknown := set(attributes) - {spec["name"] for spec in record["signature"]["attributes"]}:
        return f"it has no attribute {', '.join(sorted(unknown))}"
    fakes, values = torch.fx.map_arg((tuple(operands), attributes), lambda source: source.meta["val"])
    try:
        results = _C.fake_operator(record["operator"], fakes, values)
        refusal = str(_C.operator_refusal(record["operator"], fakes, values, device.index))
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return str(error).splitlines()[0]
    if refusal or not _same(results, node.meta["val"]):
        return refusal or "it has other results"
    node.target = getattr(getattr(torch.ops, NAMESPACE), record["operator"]).default
    node.args, node.kwargs = tuple(operands), attributes
    node.meta.pop("eager_input_vals", None)  # of the arguments that were
    return ""


def _device_of(node: Node) -> torch.device | None:
    made = pytree.tree_leaves(node.meta.get("val"))
    devices = {tensor.device for tensor in made if isinstance(tensor, torch.Tensor)}
    device = devices.pop() if len(devices) == 1 else None
    return device if device is not None and device.type == DEVICE_NAME else None


def _divide(node: Node) -> tuple[Sequence[Any], dict[str, Any]]:
    """The operands and the attributes of the call."""
    operands: list[Any] = []
    attributes: dict[str, Any] = {}
    for place, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        given = place < len(node.args)
        value = node.args[place] if given else node.kwargs.get(argument.name, argument.default_value)
        if "Tensor" in str(argument.type):
            operands.append(value)
        else:
            attributes[argument.name] = value
    return operands, attributes


def _same(results: Any, traced: Any) -> bool:
    """Whether the kernel gives what the operator does: as many tensors, which lie in the same way."""
    if isinstance(results, torch.Tensor) != isinstance(traced, torch.Tensor):
        return False
    found, expected = pytree.tree_leaves(results), pytree.tree_leaves(traced)
    return len(found) == len(expected) and all(
        isinstance(b, torch.Tensor) and (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        for a, b in zip(found, expected, strict=True)
    )
