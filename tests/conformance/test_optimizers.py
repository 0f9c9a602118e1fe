"""Every optimizer of PyTorch's own database, with each of its options and implementations, against the CPU."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import (
    OptimizerInfo,
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
)

import torch_mydev

DTYPES = (torch.float32, torch.float64)
#: Divides by differences of gradients: two orders of summation give different steps.
UNSTABLE = {(torch.optim.LBFGS, torch.float32)}
STEPS = 4


def _options(info: OptimizerInfo) -> list[dict[str, Any]]:
    """Options that the device offers and that the CPU, as the reference, has as well or does without."""
    device = torch.device(torch_mydev.device_name)
    configurations = _get_optim_inputs_including_global_cliquey_kwargs(device, torch.float32, info)
    named = [c.kwargs for c in configurations]
    if "fused" in info.supported_impls:
        named += [{**c.kwargs, "fused": True} for c in info.optim_inputs_func("cpu")]
    if "foreach" in info.supported_impls:
        named += [{**c.kwargs, "foreach": True} for c in info.optim_inputs_func("cpu")]
    return list({repr(sorted(options.items(), key=str)): options for options in named}.values())


def _cases() -> list[Any]:
    return [
        pytest.param(info, options, dtype, id=f"{info.optim_cls.__name__}-{i}-{dtype}")
        for info in optim_db
        for dtype in DTYPES
        if (info.optim_cls, dtype) not in UNSTABLE
        for i, options in enumerate(_options(info))
    ]


def _moved(value: Any) -> Any:
    return value.to(torch_mydev.device_name) if isinstance(value, torch.Tensor) else value


def _parameters(info: OptimizerInfo, dtype: torch.dtype) -> list[torch.Tensor]:
    """Without requires_grad, since differentiable steps change their parameters in place; gradients are given."""
    torch.manual_seed(3)
    shapes = [(4, 3), (3,)] if info.optim_cls.__name__ != "Muon" else [(4, 3), (5, 5)]
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def _train(
    info: OptimizerInfo, parameters: list[torch.Tensor], options: dict[str, Any]
) -> tuple[list[torch.Tensor], dict[str, Any]]:
    optimizer = info.optim_cls(parameters, **options)
    wanted = [torch.linspace(-2, 3, p.numel(), dtype=torch.float64).reshape(p.shape).to(p) for p in parameters]

    def closure() -> torch.Tensor:
        """The squared distance from what is wanted, and its gradients."""
        distances = [p - w for p, w in zip(parameters, wanted, strict=True)]
        for parameter, distance in zip(parameters, distances, strict=True):
            gradient = 2 * distance
            parameter.grad = gradient.to_sparse() if info.only_supports_sparse_grads else gradient
        return torch.stack([distance.square().sum() for distance in distances]).sum()

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return parameters, optimizer.state_dict()["state"]


@pytest.mark.parametrize(("info", "options", "dtype"), _cases())
def test_steps_agree_with_cpu(info: OptimizerInfo, options: dict[str, Any], dtype: torch.dtype) -> None:
    reference = _parameters(info, dtype)
    parameters = [p.to(torch_mydev.device_name) for p in reference]
    # The CPU takes the plain loop, whatever the device is asked to take. Differentiable steps compute otherwise.
    plain = {k: v for k, v in options.items() if k not in ("foreach", "fused", "capturable")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, expected_state = _train(info, reference, copy.deepcopy(plain))
        actual, actual_state = _train(info, parameters, {k: _moved(v) for k, v in options.items()})
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e)
    for index, values in expected_state.items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                found = torch.as_tensor(actual_state[index][name]).cpu()
                torch.testing.assert_close(found, value.to(found.dtype), check_stride=False)
