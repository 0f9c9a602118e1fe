"""torch.nn.attention.flex_attention on the device: eager and compiled, with gradients.

torch has a list of devices there, and a template of code for each. A graph without gradients takes the CPU's template
if the host reaches the device's memory (compile/host_graph.py). In any other graph, tracing takes the operator apart
into what eager mode computes: products, the modified scores, a softmax. The graph's compiler fuses those, but the
scores of all queries and keys are held in memory, as they are in eager mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import get_device_properties
from torch_mydev.integrations.integration import Integration, UnfamiliarError


def _patch_function(module: Any) -> None:
    """Lets ``flex_attention`` take tensors of the device.

    Reason: it refuses devices that are not in its list; and it asks for what the gradient needs wherever gradients are
    switched on, except on the CPU, whose template cannot give it.
    Remove when: a device can register its own implementation of flex attention.
    """
    validate, apply_options = module._validate_device, module._apply_kernel_options

    def _validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != DEVICE_NAME:
            validate(query, key, value)

    def _apply_kernel_options(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        return_lse: bool,
        kernel_options: Any,
        return_aux: Any = None,
    ) -> Any:
        options = apply_options(query, key, value, return_lse, kernel_options, return_aux)
        if query.device.type == DEVICE_NAME:
            options["OUTPUT_LOGSUMEXP"] = return_lse if return_aux is None else return_aux.lse
        return options

    module._validate_device, module._apply_kernel_options = _validate_device, _apply_kernel_options


def _patch_operators(module: Any) -> None:
    """Takes the operators apart while graphs are traced, and casts their operands under autocast.

    Reason: Inductor knows a template for each device of its own, none of which has a gradient on the host; programs
    have no such operator; and autocast is written out for CUDA and the CPU.
    Remove when: as above, and when the operators' autocast is for all devices.
    """
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    operator, backward = module.flex_attention, module.flex_attention_backward
    if FunctionalTensorMode not in operator.python_key_table or FunctionalTensorMode not in backward.python_key_table:
        raise UnfamiliarError("its operators have no rule for functionalization")
    _take_apart(operator, module.sdpa_dense, _has_template)
    _take_apart(backward, module.sdpa_dense_backward, lambda *args: False)
    own_key = torch._C.DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]

    @operator.py_impl(own_key)  # type: ignore[untyped-decorator]
    def autocast(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any) -> Any:
        dtype = torch.get_autocast_dtype(DEVICE_NAME)
        operands = [
            tensor.to(dtype) if tensor.dtype.is_floating_point and tensor.dtype != torch.float64 else tensor
            for tensor in (query, key, value)
        ]
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(own_key)):
            return operator(*operands, *args)


def _take_apart(operator: Any, dense: Callable[..., Any], stays_whole: Callable[..., bool]) -> None:
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    original = operator.python_key_table[FunctionalTensorMode]

    def functionalize(mode: Any, query: torch.Tensor, *args: Any) -> Any:
        if query.device.type != DEVICE_NAME or stays_whole(query, *args):
            return original(mode, query, *args)
        with mode:
            return dense(query, *args)

    operator.python_key_table[FunctionalTensorMode] = functionalize
    operator._dispatch_cache.clear()


def _has_template(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Any,
    block_mask: Any,
    scale: float,
    options: dict[str, Any],
    score_buffers: tuple[Any, ...] = (),
    *args: Any,
) -> bool:
    """Whether Inductor's template for the CPU computes this: the result alone, of one floating dtype, no gradient."""
    tensors = [query, key, value, *(buffer for buffer in score_buffers if isinstance(buffer, torch.Tensor))]
    return (
        not any(tensor.requires_grad for tensor in tensors)
        and not options.get("OUTPUT_LOGSUMEXP")
        and not options.get("OUTPUT_MAX")
        and query.dtype == key.dtype == value.dtype
        and query.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and _reaches_memory(query.device)
    )


@functools.cache
def _reaches_memory(device: torch.device) -> bool:
    return get_device_properties(device).host_accessible and torch.cpu._is_avx2_supported()


INTEGRATION = Integration(
    name="flex_attention",
    distribution="torch",
    since=(2, 13),
    before=(2, 16),
    actions={
        "torch.nn.attention.flex_attention": _patch_function,
        "torch._higher_order_ops.flex_attention": _patch_operators,
    },
)
