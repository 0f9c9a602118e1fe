"""Steps of torch.optim's Adam, AdamW and SGD in one launch, where the user chose it or no form.

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


def prefer_fused(step: Callable[..., None], num_lists: int, is_adam: bool) -> Callable[..., None]:
    """Returns ``torch.optim``'s functional ``step`` as one that is fused, unless it is told otherwise or cannot be.

    Parameters of one device and one dtype, as nearly all models have, go to the operator as they are. Others go through
    torch's own fused form, which sorts them first. Gradients and state that lie otherwise than their parameters, and
    steps that are differentiated, are not fused.

    Args:
        step: takes ``num_lists`` lists of tensors, of which the first are parameters and gradients.
        is_adam: whether it is Adam's, which AdamW shares, or SGD's.
    """

    step_alike = _step_adam if is_adam else _step_sgd

    @functools.wraps(step)
    def with_choice(*args: Any, **options: Any) -> None:
        if len(args) == num_lists and _may_choose(options) and (is_adam or _are_alike(args[2])):
            fits, one_dtype = _C.fused_step(is_adam, *(args[:5] if is_adam else args))
            if fits and one_dtype:
                step_alike(*args, **options)
                return
            if fits:
                _C.bump_versions(args[0])
                options["fused"] = True
                options["foreach"] = False
        step(*args, **options)

    return with_choice


_SCALED = ("grad_scale", "found_inf")
_SCALARS = ("beta1", "beta2", "weight_decay", "momentum")


def _may_choose(options: dict[str, Any]) -> bool:
    """Whether the caller chose the fused form or none, and asks for nothing that these functions lack."""
    return (
        (options.get("fused") is True if options.get("foreach") is False else options.get("foreach") is None)
        and options.get("fused") is not False
        and all(options.get(name) is None for name in _SCALED)
        and not options.get("differentiable")
        and not options.get("has_sparse_grad")
        and not any(isinstance(options.get(name), torch.Tensor) for name in _SCALARS)
        and not torch.compiler.is_compiling()
    )


def _are_alike(buffers: Sequence[torch.Tensor | None]) -> bool:
    """Whether all parameters have had a step, or none has: SGD's fused form knows no other state."""
    return len({buffer is None for buffer in buffers}) < 2


def _step_sgd(
    parameters: list[torch.Tensor],
    gradients: list[torch.Tensor],
    buffers: list[torch.Tensor | None],
    *,
    weight_decay: float,
    momentum: float,
    lr: float | torch.Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    **_: Any,
) -> None:
    """Steps parameters of one dtype, and gives them ``buffers`` in place at the first step with momentum."""
    is_first_step = momentum != 0 and buffers[0] is None
    if is_first_step:
        buffers[:] = [torch.empty_like(gradient) for gradient in gradients]
    written = buffers if momentum != 0 else []
    _C.bump_versions(parameters, written)
    torch._fused_sgd_(
        parameters,
        gradients,
        written,  # type: ignore[arg-type]
        weight_decay=weight_decay,
        momentum=momentum,
        lr=lr,  # type: ignore[arg-type]
        dampening=dampening,
        nesterov=nesterov,
        maximize=maximize,
        is_first_step=is_first_step,
    )


def _step_adam(
    *lists: list[torch.Tensor],
    amsgrad: bool,
    beta1: float,
    beta2: float,
    lr: float | torch.Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled_weight_decay: bool = False,
    **_: Any,
) -> None:
    """Steps parameters of one dtype. ``lists`` are those of ``torch._fused_adam_``, of which the last counts steps."""
    _C.count_steps(lists[5])
    _C.bump_versions(lists[0], *lists[2:5])
    (torch._fused_adamw_ if decoupled_weight_decay else torch._fused_adam_)(
        *lists,
        lr=lr,
        beta1=beta1,
        beta2=beta2,
        weight_decay=weight_decay,
        eps=eps,
        amsgrad=amsgrad,
        maximize=maximize,
    )
