"""Runs one OpInfo on the CPU and on the device, over its sample inputs, and compares.

Random operators (the ledger lists them) draw other numbers on the device than on the CPU; they are compared by shape,
dtype and device, and must give the same numbers again for the same seed. Tolerances are assert_close's, except where
PyTorch's own tests of an operator grant it more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import set_rng_seed
from torch.testing._internal.opinfo.core import ErrorInput, OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

from torch_mydev import device_name

from . import ledger

T = TypeVar("T")

#: Sample inputs per operator. The first of an OpInfo are its simplest; enough to meet each kind that it lists.
MAX_SAMPLES = 12

#: Operators that the CPU has: the others (of no dtype there, or compiled for CUDA) have nothing to be compared with.
OPERATORS = [op for op in op_db if op.supported_dtypes("cpu") and not op.name.startswith("jiterator_")]


def case_name(op: OpInfo) -> str:
    """``name`` or ``name.variant``: what the ledger and pytest call an OpInfo."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def sample_dtype(op: OpInfo) -> torch.dtype:
    """float32 where the operator takes it, else the first dtype it lists."""
    dtypes = op.supported_dtypes("cpu")
    return torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]


def has_gradients(op: OpInfo) -> bool:
    """Whether the operator is differentiable in the dtype of its samples."""
    return bool(op.supports_autograd and sample_dtype(op).is_floating_point)


def _seeded(inputs: Iterable[T]) -> Iterator[T]:
    iterator = iter(inputs)
    while True:
        set_rng_seed()
        try:
            yield next(iterator)
        except StopIteration:
            return


def sample_inputs(op: OpInfo, dtype: torch.dtype, *, requires_grad: bool) -> Iterator[SampleInput]:
    """What ``op.sample_inputs`` gives on the CPU, without its search for a unittest on the stack, which takes longer."""
    return _seeded(op.sample_inputs_func(op, "cpu", dtype, requires_grad))


def error_inputs(op: OpInfo) -> Iterator[ErrorInput]:
    """What ``op.error_inputs`` gives on the CPU, likewise."""
    return _seeded(op.error_inputs_func(op, "cpu"))


def samples(op: OpInfo, *, requires_grad: bool) -> Iterator[SampleInput]:
    """At most MAX_SAMPLES sample inputs on the CPU."""
    return itertools.islice(sample_inputs(op, sample_dtype(op), requires_grad=requires_grad), MAX_SAMPLES)


class _Mover:
    """Moves values to the device. What shares memory on the CPU does there."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.Tensor] = {}

    def __call__(self, value: Any) -> Any:
        """A strided tensor keeps its place in its storage, lazy bits and requires_grad; meta tensors stay."""
        if isinstance(value, torch.Tensor):
            return value if value.is_meta else self._tensor(value).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(device_name)
        return value

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        if value.layout != torch.strided:
            return value.detach().to(device_name)
        if value.is_conj():
            return self._tensor(value.detach().conj()).conj()
        if value.is_neg():
            return torch._neg_view(self._tensor(torch._neg_view(value.detach())))
        storage = value.untyped_storage()
        if storage._cdata not in self._storages:
            bytes_of_all = torch.empty(0, dtype=torch.uint8).set_(storage)
            self._storages[storage._cdata] = bytes_of_all.to(device_name)
        moved = torch.empty(0, dtype=value.dtype, device=device_name)
        whole = self._storages[storage._cdata].untyped_storage()
        return moved.set_(whole, value.storage_offset(), value.size(), value.stride())


def moved(values: Any) -> Any:
    """The same values, of any nesting, on the device."""
    return tree_map(_Mover(), values)


def on_device(sample: SampleInput) -> SampleInput:
    """The same sample on the device."""
    sample_input, args, kwargs = moved((sample.input, sample.args, sample.kwargs))
    return SampleInput(sample_input, args=args, kwargs=kwargs, output_process_fn_grad=sample.output_process_fn_grad)


def run(function: Callable[..., Any], sample: SampleInput) -> list[Any]:
    """The results of a function, which may be an OpInfo, for a sample, as a list."""
    result = function(sample.input, *sample.args, **sample.kwargs)
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    return tree_flatten(result)[0]


def tolerance(op: OpInfo) -> dict[str, float]:
    """What PyTorch's own tests allow this operator in float32: their largest override; without one, assert_close's.

    Nothing for operators whose samples are of another type.
    """
    granted = [
        wrapped.d[torch.float32]
        for decorator in op.decorators
        for wrapped in getattr(decorator, "decorators", [decorator])
        if isinstance(wrapped, toleranceOverride) and torch.float32 in wrapped.d
    ]
    if sample_dtype(op) != torch.float32 or not granted:
        return {}
    return {"atol": max(1e-5, *(t.atol for t in granted)), "rtol": max(1.3e-6, *(t.rtol for t in granted))}


def compare(actual: Any, expected: Any, *, values: bool, tolerance: dict[str, float] | None = None) -> None:
    """Holds a result against the CPU's: type, shape and dtype, and with ``values`` what it contains."""
    if not isinstance(expected, torch.Tensor):
        assert type(actual) is type(expected), f"{actual!r} is not a {type(expected)}"
        if values and not isinstance(expected, (torch.device, torch.Generator)):
            both_nan = actual != actual and expected != expected
            assert actual == expected or both_nan, f"{actual!r} != {expected!r}"
        return
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, on the CPU {tuple(expected.shape)}"
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, on the CPU {expected.dtype}"
    assert actual.device.type == device_name, f"a result on {actual.device}"
    if values:
        torch.testing.assert_close(
            actual.detach().cpu(), expected.detach(), equal_nan=True, check_stride=False, **(tolerance or {})
        )


def widened_values(values: Any) -> Any:
    """The same values, of any nesting, in float64."""

    def widen(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        return value.detach().double().requires_grad_(value.requires_grad)

    return tree_map(widen, values)


def widened(sample: SampleInput) -> SampleInput:
    """The same sample in float64."""
    sample_input, args, kwargs = widened_values((sample.input, sample.args, sample.kwargs))
    return SampleInput(sample_input, args=args, kwargs=kwargs, output_process_fn_grad=sample.output_process_fn_grad)


def near_float64(actual: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor, allowed: dict[str, float]) -> bool:
    """Whether each element is within the tolerance of what float64 gives, or no farther from it than the CPU's.

    A result of another shape or dtype than the CPU's, or elsewhere than on the device, is not near.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype or actual.device.type != device_name:
        return False
    of_device, of_cpu = ((t.detach().cpu().double() - exact.detach()).abs() for t in (actual, expected))
    near = (of_device <= allowed["atol"] + allowed["rtol"] * exact.detach().abs()) | (of_device <= of_cpu)
    # Where float64 has infinity or NaN, the narrower type's own range decides.
    same = torch.isclose(actual.detach().cpu(), expected.detach(), equal_nan=True, **allowed)
    return bool((near | same).all())


def draws_random_numbers(op: OpInfo, sample: SampleInput) -> bool:
    """Whether the ledger says that the operator is random for this sample."""
    case = case_name(op)
    where = ledger.DROPOUT_ARGUMENT.get(case)
    if where is None:
        return case in ledger.RANDOM
    return bool(sample.args[where] if isinstance(where, int) else sample.kwargs.get(where, 0))


def check_forward(op: OpInfo) -> None:
    """Compares the results of each sample, of which there must be one that has results."""
    compared = 0
    values = case_name(op) not in ledger.UNDEFINED_CONTENTS
    for sample in samples(op, requires_grad=False):
        random = draws_random_numbers(op, sample)
        moved = on_device(sample)
        torch.manual_seed(0)
        expected = run(op, sample)
        torch.manual_seed(0)
        actual = run(op, moved)
        assert len(actual) == len(expected), f"{len(actual)} results, on the CPU {len(expected)}"
        for a, e in zip(actual, expected, strict=True):
            compare(a, e, values=values and not random, tolerance=tolerance(op))
        if random:
            again = on_device(sample)
            torch.manual_seed(0)
            for a, b in zip(actual, run(op, again), strict=True):
                compare(a, b.cpu() if isinstance(b, torch.Tensor) else b, values=True)
        compared += len(expected)
    assert compared > 0, "nothing was compared"


def gradients(results: list[Any], sample: SampleInput) -> list[torch.Tensor | None] | None:
    """Gradients of a weighted sum of the results for the leaves of the sample; None if nothing is differentiable."""
    leaves = [
        t
        for t in tree_flatten((sample.input, sample.args, sample.kwargs))[0]
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    outputs = [t for t in results if isinstance(t, torch.Tensor) and t.requires_grad]
    if not leaves or not outputs:
        return None
    total = sum((t.abs().sum() if t.is_complex() else t.sum()) * (i + 1) for i, t in enumerate(outputs))
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def check_backward(op: OpInfo) -> None:
    """Compares the gradients of each sample, of which there must be one that has any."""
    compared = 0
    for sample in samples(op, requires_grad=True):
        moved = on_device(sample)
        expected = gradients(run(op, sample), sample)
        if expected is None:
            continue
        actual = gradients(run(op, moved), moved)
        assert actual is not None, "no gradient on the device"
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert (a is None) == (e is None), "a gradient is missing on one side"
            if a is None or e is None:
                continue
            try:
                compare(a, e, values=not draws_random_numbers(op, sample), tolerance=tolerance(op))
            except AssertionError:
                if e.dtype != torch.float32:
                    raise
                wide = widened(sample)
                exact = gradients(run(op, wide), wide)
                allowed = tolerance(op) or {"rtol": 1.3e-6, "atol": 1e-5}
                if exact is None or not near_float64(a, e, exact[i], allowed):
                    raise
            compared += 1
    assert compared > 0, "nothing was compared"
