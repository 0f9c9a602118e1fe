"""Steps of torch.optim's Adam, AdamW and SGD in one launch, where the user chose no form.

A step that is given neither ``fused`` nor ``foreach`` is a dozen passes over all parameters in torch, one for each
``torch._foreach_`` operator. The fused kernels read and write each element once. Their results are those of the other
forms within rounding, and the state has the same dtypes and devices as without them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_TYPES = (torch.nn.Parameter, torch.Tensor)  # wrappers, DTensor say, have operators of their own


def prefer_fused(step: Callable[..., None], num_lists: int, is_adam: bool) -> Callable[..., None]:
    """Returns ``torch.optim``'s functional ``step`` as one that is fused, unless it is told otherwise or cannot be.

    Args:
        step: takes ``num_lists`` lists of tensors, of which the first are parameters and gradients.
        is_adam: whether it is Adam's, which AdamW shares, or SGD's.
    """

    @functools.wraps(step)
    def with_choice(*args: Any, **options: Any) -> None:
        if (
            len(args) == num_lists
            and options.get("foreach") is None
            and options.get("fused") is None
            and not torch.compiler.is_compiling()
            and _fits(args[0], args[1], options, is_adam)
            and (is_adam or _are_alike(args[2]))
        ):
            options["fused"] = True
            options["foreach"] = False
        step(*args, **options)

    return with_choice


def _are_alike(buffers: Sequence[torch.Tensor | None]) -> bool:
    """Whether all parameters have had a step, or none has: SGD's fused form knows no other state."""
    return len({buffer is None for buffer in buffers}) < 2


def _fits(
    parameters: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], options: dict[str, Any], is_adam: bool
) -> bool:
    if not parameters or options.get("differentiable") or options.get("has_sparse_grad"):
        return False
    if any(isinstance(options.get(name), torch.Tensor) for name in ("beta1", "beta2", "weight_decay", "momentum")):
        return False
    device = parameters[0].device
    return (
        device.type == DEVICE_NAME
        and all(
            type(parameter) in _TYPES
            and parameter.device == device
            and parameter.dtype in _DTYPES
            and gradient.dtype == parameter.dtype
            and gradient.layout == torch.strided
            for parameter, gradient in zip(parameters, gradients, strict=True)
        )
        and _C.steps_in_one_launch(is_adam, device.index)
    )
