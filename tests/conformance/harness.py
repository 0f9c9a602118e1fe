"""Runs one OpInfo on the CPU and on the device, over its sample inputs, and compares.

Random operators (the ledger lists them) draw other numbers on the device than on the CPU; they are compared by shape,
dtype and device, and must give the same numbers again for the same seed. Tolerances are assert_close's, except where
PyTorch's own tests of an operator grant it more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

from torch_mydev import device_name

from . import ledger

#: Sample inputs per operator. The first of an OpInfo are its plainest; enough to meet each kind that it lists.
MAX_SAMPLES = 12


def case_name(op: OpInfo) -> str:
    """``name`` or ``name.variant``: what the ledger and pytest call an OpInfo."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def sample_dtype(op: OpInfo) -> torch.dtype:
    """float32 where the operator takes it, else the first dtype it lists."""
    dtypes = op.supported_dtypes("cpu")
    return torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]


def samples(op: OpInfo, *, requires_grad: bool) -> Iterator[SampleInput]:
    """At most MAX_SAMPLES sample inputs on the CPU."""
    generated = op.sample_inputs("cpu", sample_dtype(op), requires_grad=requires_grad)
    return itertools.islice(generated, MAX_SAMPLES)


def _move(value: Any) -> Any:
    """A sample's value on the device: a strided tensor keeps its place in its storage, and requires_grad."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_conj() or value.is_neg():
            return value.detach().to(device_name).requires_grad_(value.requires_grad)
        whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
        view = whole.to(device_name).as_strided(value.size(), value.stride(), value.storage_offset())
        return view.detach().requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(device_name)
    return value


def on_device(sample: SampleInput) -> SampleInput:
    """The same sample on the device."""
    return SampleInput(
        tree_map(_move, sample.input),
        args=tree_map(_move, sample.args),
        kwargs=tree_map(_move, sample.kwargs),
        output_process_fn_grad=sample.output_process_fn_grad,
    )


def _run(op: OpInfo, sample: SampleInput) -> list[Any]:
    result = op(sample.input, *sample.args, **sample.kwargs)
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    return tree_flatten(result)[0]


def _tolerance(op: OpInfo) -> dict[str, float]:
    """What PyTorch's own tests allow this operator in float32: their largest override; without one, assert_close's."""
    granted = [
        wrapped.d[torch.float32]
        for decorator in op.decorators
        for wrapped in getattr(decorator, "decorators", [decorator])
        if isinstance(wrapped, toleranceOverride) and torch.float32 in wrapped.d
    ]
    if sample_dtype(op) != torch.float32 or not granted:
        return {}
    return {"atol": max(1e-5, *(t.atol for t in granted)), "rtol": max(1.3e-6, *(t.rtol for t in granted))}


def _compare(actual: Any, expected: Any, *, values: bool, tolerance: dict[str, float] | None = None) -> None:
    if not isinstance(expected, torch.Tensor):
        assert type(actual) is type(expected), f"{actual!r} is not a {type(expected)}"
        if values and not isinstance(expected, (torch.device, torch.Generator)):
            assert actual == expected or actual != actual, f"{actual!r} != {expected!r}"
        return
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, on the CPU {tuple(expected.shape)}"
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, on the CPU {expected.dtype}"
    if values:
        torch.testing.assert_close(
            actual.detach().cpu(), expected.detach(), equal_nan=True, check_stride=False, **(tolerance or {})
        )


def _draws_random_numbers(op: OpInfo, sample: SampleInput) -> bool:
    case = case_name(op)
    where = ledger.DROPOUT_ARGUMENT.get(case)
    if where is None:
        return case in ledger.RANDOM
    return bool(sample.args[where] if isinstance(where, int) else sample.kwargs.get(where, 0))


def check_forward(op: OpInfo) -> int:
    """Compares the results of each sample; returns how many samples ran."""
    count = 0
    values = case_name(op) not in ledger.UNDEFINED_CONTENTS
    for sample in samples(op, requires_grad=False):
        random = _draws_random_numbers(op, sample)
        moved = on_device(sample)
        torch.manual_seed(0)
        expected = _run(op, sample)
        torch.manual_seed(0)
        actual = _run(op, moved)
        assert len(actual) == len(expected), f"{len(actual)} results, on the CPU {len(expected)}"
        for a, e in zip(actual, expected, strict=True):
            _compare(a, e, values=values and not random, tolerance=_tolerance(op))
        if random:
            again = on_device(sample)
            torch.manual_seed(0)
            for a, b in zip(actual, _run(op, again), strict=True):
                _compare(a, b.cpu() if isinstance(b, torch.Tensor) else b, values=True)
        count += 1
    return count


def _gradients(op: OpInfo, sample: SampleInput) -> list[torch.Tensor | None] | None:
    leaves = [
        t
        for t in tree_flatten((sample.input, sample.args, sample.kwargs))[0]
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    outputs = [t for t in _run(op, sample) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not leaves or not outputs:
        return None
    total = sum((t.abs().sum() if t.is_complex() else t.sum()) * (i + 1) for i, t in enumerate(outputs))
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def check_backward(op: OpInfo) -> int:
    """Compares the gradients of each sample; returns how many samples had any."""
    count = 0
    for sample in samples(op, requires_grad=True):
        moved = on_device(sample)
        expected = _gradients(op, sample)
        if expected is None:
            continue
        actual = _gradients(op, moved)
        assert actual is not None, "no gradient on the device"
        for a, e in zip(actual, expected, strict=True):
            assert (a is None) == (e is None), "a gradient is missing on one side"
            if e is not None:
                _compare(a, e, values=not _draws_random_numbers(op, sample), tolerance=_tolerance(op))
        count += 1
    return count
