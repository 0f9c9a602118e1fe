"""Extending torch_mydev from Python: operators, kernels, gradients and refusals with torch.library.

docs/extending.md walks through the marked parts; tests/custom_call/test_extending.py runs them.
"""

from __future__ import annotations

import torch
from torch import Tensor

import torch_mydev


# [docs: custom-operator]
@torch.library.custom_op("example_py::softclip", mutates_args=(), device_types="mydev")
def softclip(x: Tensor, limit: float) -> Tensor:
    """x for small x, +-limit for large x: the kernel for the device."""
    return limit * torch.tanh(x / limit)


@softclip.register_kernel("cpu")
def _(x: Tensor, limit: float) -> Tensor:
    return torch.tanh(x / limit).mul_(limit)


@softclip.register_fake
def _(x: Tensor, limit: float) -> Tensor:
    return torch.empty_like(x)


# [docs: end]


# [docs: custom-gradient]
def _save_for_backward(ctx, inputs, output) -> None:
    _, ctx.limit = inputs
    ctx.save_for_backward(output)


def _softclip_backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
    (output,) = ctx.saved_tensors
    return grad * (1 - (output / ctx.limit) ** 2), None


softclip.register_autograd(_softclip_backward, setup_context=_save_for_backward)
# [docs: end]


# [docs: library]
# The same with the lower-level interface: a definition, then kernels by dispatch key.
definitions = torch.library.Library("example_py", "FRAGMENT")
definitions.define("rotate_pairs(Tensor x) -> Tensor")


def rotate_pairs(x: Tensor) -> Tensor:
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([-odd, even], -1).flatten(-2)


definitions.impl("rotate_pairs", rotate_pairs, "PrivateUse1")
definitions.impl("rotate_pairs", lambda x: torch.empty_like(x), "Meta")
# [docs: end]


# [docs: autograd-function]
class RotatePairs(torch.autograd.Function):
    """The gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.example_py.rotate_pairs(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return -RotatePairs.apply(grad)


definitions.impl("rotate_pairs", RotatePairs.apply, "AutogradPrivateUse1")
# [docs: end]


# [docs: override]
# An operator of PyTorch that is a composite of others, replaced on this device only.
overrides = torch.library.Library("aten", "IMPL")


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.where(x > 0, x, alpha * torch.expm1(x / alpha))


def override_celu() -> None:
    overrides.impl("celu", celu, "PrivateUse1")


# [docs: end]


# [docs: fallthrough]
definitions.define("count_positive(Tensor x) -> Tensor")
definitions.impl("count_positive", lambda x: (x > 0).sum(), "CompositeExplicitAutograd")
definitions.impl("count_positive", torch.library.fallthrough_kernel, "AutogradPrivateUse1")
# [docs: end]


# [docs: refusal]
def median_without_fallback(x: Tensor) -> Tensor:
    """Raises NotImplementedError where the device has no median of its own."""
    with torch_mydev.fallback_mode("error", op="aten::median"):
        return torch.median(x)


def everything_native(step) -> None:
    """Runs a step in which nothing may fall back."""
    with torch_mydev.fallback_mode("error"):
        step()


def what_fell_back(step) -> str:
    """Runs a step and tells which operators ran on the CPU."""
    with torch_mydev.fallback_census() as census:
        step()
    return str(census)


# [docs: end]
