"""Every module of PyTorch's own database against the CPU: results, gradients and strides, training and evaluation."""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.utils._pytree import tree_flatten, tree_map

import torch_mydev
from torch_mydev.conform.operators import harness

#: These modules draw random numbers in training, so that only shapes are compared there.
RANDOM_IN_TRAINING = ("Dropout", "RReLU", "FractionalMaxPool", "Transformer", "MultiheadAttention")
#: A module that has more inputs gets so many, evenly chosen, unless all questions of breadth.py are asked.
MOST_INPUTS = 16
FORMATS = {"contiguous": None, "channels-last": torch.channels_last, "channels-last-3d": torch.channels_last_3d}
#: Half precision is left out: a module rounds there after each of its operators. breadth.py tests each of those.
DTYPES = (torch.float32, torch.float64)


def _cases() -> list[Any]:
    return [
        pytest.param(
            info, dtype, training, layout, id=f"{info.name}-{dtype}-{'train' if training else 'eval'}-{layout}"
        )
        for info in module_db
        for dtype in DTYPES
        for training in ((True, False) if info.train_and_eval_differ else (True,))
        for layout in FORMATS
        if dtype in info.dtypes and (layout == "contiguous" or info.module_memformat_affects_out)
    ]


def _formatted(value: Any, layout: str) -> Any:
    """A tensor as a leaf of its own, in the memory format if it has the dimensions for one."""
    if not isinstance(value, torch.Tensor):
        return value
    memory_format = FORMATS[layout]
    leaf = value.detach()
    if memory_format is not None and value.dim() == (4 if layout == "channels-last" else 5):
        leaf = leaf.contiguous(memory_format=memory_format)
    return leaf.requires_grad_(value.requires_grad)


def _run(module: nn.Module, arguments: tuple[Any, dict[str, Any]]) -> list[torch.Tensor | None]:
    """Results, and the gradients of inputs and parameters where there are any."""
    torch.manual_seed(0)
    args, kwargs = arguments
    results = [t for t in tree_flatten(module(*args, **kwargs))[0] if isinstance(t, torch.Tensor)]
    inputs = [t for t in tree_flatten(arguments)[0] if isinstance(t, torch.Tensor)]
    leaves = [t for t in (*inputs, *module.parameters()) if t.requires_grad]
    outputs = [t for t in results if t.requires_grad]
    if not leaves or not outputs:
        return list(results)
    weights = [torch.linspace(0.5, 1.5, t.numel()).reshape(t.shape).to(t) for t in outputs]
    return [*results, *torch.autograd.grad(outputs, leaves, weights, allow_unused=True)]


@pytest.mark.parametrize(("info", "dtype", "training", "layout"), _cases())
def test_agrees_with_cpu(
    info: ModuleInfo, dtype: torch.dtype, training: bool, layout: str, request: pytest.FixtureRequest
) -> None:
    compared = 0
    everything = request.config.getoption("conformance_share") == 1
    values = not (training and any(name in info.name for name in RANDOM_IN_TRAINING))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for case in inputs[:: 1 if everything else -(-len(inputs) // MOST_INPUTS)]:
            if case.forward_input is None:
                continue
            torch.manual_seed(0)
            made = info.module_cls(*case.constructor_input.args, **case.constructor_input.kwargs)
            reference = made.to(dtype).train(training)
            call = (case.forward_input.args, case.forward_input.kwargs)
            arguments = tree_map(lambda value: _formatted(value, layout), call)
            if info.is_lazy:  # its parameters are made by the first call
                reference(*arguments[0], **arguments[1])
            for parameter in reference.parameters():
                parameter.data = _formatted(parameter.data, layout)
            module = copy.deepcopy(reference).to(torch_mydev.device_name)
            moved = harness.moved(arguments)
            exact = None
            pairs = itertools.zip_longest(_run(module, moved), _run(reference, arguments))
            for i, (actual, expected) in enumerate(pairs):
                assert (actual is None) == (expected is None)
                if expected is None:
                    continue
                try:
                    harness.compare(actual, expected, values=values)
                except AssertionError:
                    if dtype == torch.float64 or expected.dtype != dtype:
                        raise
                    exact = exact or _run(copy.deepcopy(reference).double(), harness.widened_values(arguments))
                    rtol, atol = torch.testing._comparison.default_tolerances(dtype)
                    if not harness.near_float64(actual, expected, exact[i], {"rtol": rtol, "atol": atol}):
                        raise
                if expected.layout == torch.strided:
                    assert actual.stride() == expected.stride(), f"{actual.stride()}, on the CPU {expected.stride()}"
                compared += 1
    assert compared > 0, "nothing was compared"
