"""Runs one OpInfo on the CPU and on the device, over its sample inputs, and compares.

Random operators draw other numbers on the device than on the CPU: they are found by the CPU generator's state moving, and
compared by shape, dtype and device, and by giving the same numbers again for the same seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

from torch_mydev import device_name

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


def _draws_random_numbers(run: Callable[[], list[Any]]) -> tuple[list[Any], bool]:
    before = torch.get_rng_state()
    result = run()
    return result, not torch.equal(before, torch.get_rng_state())


def _compare(actual: Any, expected: Any, *, values: bool) -> None:
    if not isinstance(expected, torch.Tensor):
        assert type(actual) is type(expected), f"{actual!r} is not a {type(expected)}"
        if values and not isinstance(expected, (torch.device, torch.Generator)):
            assert actual == expected or actual != actual, f"{actual!r} != {expected!r}"
        return
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, on the CPU {tuple(expected.shape)}"
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, on the CPU {expected.dtype}"
    if values:
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), equal_nan=True, check_stride=False)


def check_forward(op: OpInfo, *, values: bool) -> int:
    """Compares the results of each sample; returns how many samples ran."""
    count = 0
    for sample in samples(op, requires_grad=False):
        moved = on_device(sample)
        torch.manual_seed(0)
        expected, random = _draws_random_numbers(lambda sample=sample: _run(op, sample))
        torch.manual_seed(0)
        actual = _run(op, moved)
        assert len(actual) == len(expected), f"{len(actual)} results, on the CPU {len(expected)}"
        for a, e in zip(actual, expected, strict=True):
            _compare(a, e, values=values and not random)
        count += 1
    return count


def _gradients(op: OpInfo, sample: SampleInput) -> list[torch.Tensor | None] | None:
    leaves = [
        t for t in tree_flatten((sample.input, sample.args, sample.kwargs))[0] if isinstance(t, torch.Tensor) and t.requires_grad
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
        before = torch.get_rng_state()
        torch.manual_seed(0)
        torch.set_rng_state(before)
        expected = _gradients(op, sample)
        if expected is None:
            continue
        random = not torch.equal(before, torch.get_rng_state())
        actual = _gradients(op, moved)
        assert actual is not None, "no gradient on the device"
        for a, e in zip(actual, expected, strict=True):
            assert (a is None) == (e is None), "a gradient is missing on one side"
            if e is not None:
                _compare(a, e, values=not random)
        count += 1
    return count
