"""Runs one operator of PyTorch's database on the CPU and on the device, over its sample inputs, and compares.

Random operators (the ledger lists them) draw other numbers on the device than on the CPU; they are compared by shape,
dtype and device, and must give the same numbers again for the same seed. Tolerances are assert_close's, except where
PyTorch's own tests of an operator grant it more. Gradients, and results in half precision, that miss the CPU's count as
right if each of their elements is, within that tolerance, what float64 gives, or no farther from it than the CPU's.
Gradients in half precision are sums that cancel, so it is enough if the farthest is at most twice as far as the CPU's.

A wrong answer raises AssertionError; what the device raises goes through; NoReference says that the CPU has no answer.
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

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.conform.operators import ledger

T = TypeVar("T")

#: Sample inputs per operator. The first of an OpInfo are its simplest; enough to meet each kind that it lists.
MAX_SAMPLES = 12

#: Operators that the CPU has: the others (of no dtype there, or compiled for CUDA) have nothing to be compared with.
OPERATORS = [op for op in op_db if op.supported_dtypes("cpu") and not op.name.startswith("jiterator_")]

HALF_PRECISION = (torch.float16, torch.bfloat16)

Exact = Callable[[], list[Any] | None]  #: what float64 gives; None: nothing


class NoReference(Exception):
    """The CPU itself raises for a sample."""


def _require(holds: bool, otherwise: str) -> None:
    """An assertion that Python's -O leaves alone."""
    if not holds:
        raise AssertionError(otherwise)


def case_name(op: OpInfo) -> str:
    """``name`` or ``name.variant``: what the ledger and pytest call an OpInfo."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def sample_dtype(op: OpInfo) -> torch.dtype:
    """float32 where the operator takes it, else the first dtype it lists."""
    dtypes = op.supported_dtypes("cpu")
    return torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]


def has_gradients(op: OpInfo, dtype: torch.dtype | None = None) -> bool:
    """Whether the operator is differentiable in a floating dtype; without one, in that of its samples."""
    if dtype is None:
        return bool(op.supports_autograd and sample_dtype(op).is_floating_point)
    return bool(op.supports_autograd and dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu"))


def _seeded(inputs: Iterable[T]) -> Iterator[T]:
    iterator = iter(inputs)
    while True:
        set_rng_seed()
        try:
            yield next(iterator)
        except StopIteration:
            return


def sample_inputs(op: OpInfo, dtype: torch.dtype, *, requires_grad: bool) -> Iterator[SampleInput]:
    """The inputs of ``op.sample_inputs`` on the CPU, without its search of the stack, which takes longer."""
    return _seeded(op.sample_inputs_func(op, "cpu", dtype, requires_grad))


def error_inputs(op: OpInfo) -> Iterator[ErrorInput]:
    """The inputs of ``op.error_inputs`` on the CPU, likewise."""
    return _seeded(op.error_inputs_func(op, "cpu"))


def samples(op: OpInfo, *, requires_grad: bool, dtype: torch.dtype | None = None) -> Iterator[SampleInput]:
    """At most MAX_SAMPLES sample inputs on the CPU."""
    return itertools.islice(sample_inputs(op, dtype or sample_dtype(op), requires_grad=requires_grad), MAX_SAMPLES)


class _Mover:
    """Moves values to the device. Tensors that share memory on the CPU share it there too."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.Tensor] = {}

    def __call__(self, value: Any) -> Any:
        """A strided tensor keeps its place in its storage, lazy bits and requires_grad; meta tensors stay."""
        if isinstance(value, torch.Tensor):
            return value if value.is_meta else self._tensor(value).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(DEVICE_NAME)
        return value

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        if value.layout != torch.strided:
            return value.detach().to(DEVICE_NAME)
        if value.is_conj():
            return self._tensor(value.detach().conj()).conj()
        if value.is_neg():
            return torch._neg_view(self._tensor(torch._neg_view(value.detach())))
        storage = value.untyped_storage()
        if storage._cdata not in self._storages:
            bytes_of_all = torch.empty(0, dtype=torch.uint8).set_(storage)
            self._storages[storage._cdata] = bytes_of_all.to(DEVICE_NAME)
        moved = torch.empty(0, dtype=value.dtype, device=DEVICE_NAME)
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


def tolerance(op: OpInfo, *dtypes: torch.dtype) -> dict[str, float]:
    """The tolerance for a result of the first dtype: assert_close's, or more if PyTorch's tests grant it in a dtype."""
    granted = [
        wrapped.d[dtype]
        for decorator in op.decorators
        for wrapped in getattr(decorator, "decorators", [decorator])
        if isinstance(wrapped, toleranceOverride)
        for dtype in dtypes
        if dtype in wrapped.d
    ]
    rtol, atol = torch.testing._comparison.default_tolerances(dtypes[0])
    return {"rtol": max([rtol, *(t.rtol for t in granted)]), "atol": max([atol, *(t.atol for t in granted)])}


def compare_result(op: OpInfo, actual: Any, expected: Any, *, values: bool) -> None:
    """Holds a result of an operator's samples against the CPU's."""
    is_tensor = isinstance(expected, torch.Tensor)
    allowed = tolerance(op, expected.dtype, sample_dtype(op)) if is_tensor else None
    compare(actual, expected, values=values, tolerance=allowed)


def compare(actual: Any, expected: Any, *, values: bool, tolerance: dict[str, float] | None = None) -> None:
    """Holds a result against the CPU's: type, shape and dtype, and with ``values`` what it contains."""
    if not isinstance(expected, torch.Tensor):
        _require(type(actual) is type(expected), f"a {type(actual).__name__}, on the CPU a {type(expected).__name__}")
        if values and not isinstance(expected, (torch.device, torch.Generator)):
            both_nan = actual != actual and expected != expected
            _require(actual == expected or both_nan, f"{actual!r} != {expected!r}")
        return
    _require(isinstance(actual, torch.Tensor), f"a {type(actual).__name__} in place of a tensor")
    _require(actual.shape == expected.shape, f"shape {tuple(actual.shape)}, on the CPU {tuple(expected.shape)}")
    _require(actual.dtype == expected.dtype, f"dtype {actual.dtype}, on the CPU {expected.dtype}")
    _require(actual.device.type == DEVICE_NAME, f"a result on {actual.device}")
    if values:
        rtol, atol = (tolerance["rtol"], tolerance["atol"]) if tolerance else (None, None)
        torch.testing.assert_close(
            actual.detach().cpu(), expected.detach(), rtol=rtol, atol=atol, equal_nan=True, check_stride=False
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
    if actual.shape != expected.shape or actual.dtype != expected.dtype or actual.device.type != DEVICE_NAME:
        return False
    of_device, of_cpu = ((t.detach().cpu().double() - exact.detach()).abs() for t in (actual, expected))
    near = (of_device <= allowed["atol"] + allowed["rtol"] * exact.detach().abs()) | (of_device <= of_cpu)
    # If float64 has infinity or NaN, the narrower type's own range decides.
    same = torch.isclose(actual.detach().cpu(), expected.detach(), equal_nan=True, **allowed)
    return bool((near | same).all())


def _as_near_as_the_cpu(actual: Any, expected: Any, exact: Any) -> bool:
    """Whether no element is farther from what float64 gives than twice the CPU's farthest element."""
    of_device, of_cpu = ((t.detach().cpu().double() - exact.detach()).abs().max() for t in (actual, expected))
    return bool(of_device <= 2 * of_cpu)


def draws_random_numbers(op: OpInfo, sample: SampleInput) -> bool:
    """Whether the ledger says that the operator is random for this sample."""
    case = case_name(op)
    where = ledger.DROPOUT_ARGUMENT.get(case)
    if where is None:
        return case in ledger.RANDOM
    return bool(sample.args[where] if isinstance(where, int) else sample.kwargs.get(where, 0))


def _reference(op: OpInfo, sample: SampleInput) -> list[Any]:
    """The CPU's results."""
    try:
        return run(op, sample)
    except Exception as error:
        raise NoReference(f"the CPU raises {type(error).__name__}: {error}") from error


def _hold(op: OpInfo, dtype: torch.dtype, actual: list[Any], expected: list[Any], values: bool, exact: Exact) -> None:
    """Holds results of samples of the dtype against the CPU's; where one misses them, against float64's."""
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        _hold_one(a, e, tolerance(op, e.dtype, dtype) if isinstance(e, torch.Tensor) else {}, values, exact, i)


def _hold_one(a: Any, e: Any, allowed: dict[str, float], values: bool, exact: Exact, position: int) -> None:
    try:
        compare(a, e, values=values, tolerance=allowed)
    except AssertionError:
        if not isinstance(a, torch.Tensor) or not isinstance(e, torch.Tensor) or not e.is_floating_point():
            raise
        wide = exact()
        if wide is None or not near_float64(a, e, wide[position], allowed):
            raise


def check_forward(op: OpInfo, dtype: torch.dtype | None = None) -> None:
    """Compares the results of each sample, of which there must be one that has results."""
    dtype = dtype or sample_dtype(op)
    compared = 0
    defined = case_name(op) not in ledger.UNDEFINED_CONTENTS
    for sample in samples(op, requires_grad=False, dtype=dtype):
        random = draws_random_numbers(op, sample)
        moved = on_device(sample)
        torch.manual_seed(0)
        expected = _reference(op, sample)
        torch.manual_seed(0)
        actual = run(op, moved)
        _require(len(actual) == len(expected), f"{len(actual)} results, on the CPU {len(expected)}")

        def exact(sample: SampleInput = sample) -> list[Any] | None:
            return run(op, widened(sample)) if dtype in HALF_PRECISION else None

        _hold(op, dtype, actual, expected, defined and not random, exact)
        if random:
            again = on_device(sample)
            torch.manual_seed(0)
            for a, b in zip(actual, run(op, again), strict=True):
                compare(a, b.cpu() if isinstance(b, torch.Tensor) else b, values=True)
        compared += len(expected)
    _require(compared > 0, "nothing was compared")


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
    totals = [(t.abs().sum() if t.is_complex() else t.sum()) * (i + 1) for i, t in enumerate(outputs)]
    return list(torch.autograd.grad(sum(totals[1:], totals[0]), leaves, allow_unused=True))


def _gradients_of(op: OpInfo, sample: SampleInput) -> list[torch.Tensor | None] | None:
    return gradients(run(op, sample), sample)


def check_backward(op: OpInfo, dtype: torch.dtype | None = None) -> None:
    """Compares the gradients of each sample, of which there must be one that has any."""
    dtype = dtype or sample_dtype(op)
    compared = 0
    for sample in samples(op, requires_grad=True, dtype=dtype):
        moved = on_device(sample)
        expected = gradients(_reference(op, sample), sample)
        if expected is None:
            continue
        actual = _gradients_of(op, moved)
        if actual is None:
            raise AssertionError("no gradient on the device")
        for a, e in zip(actual, expected, strict=True):
            _require((a is None) == (e is None), "a gradient is missing on one side")
        there = [i for i, e in enumerate(expected) if e is not None]

        def exact(sample: SampleInput = sample, there: list[int] = there) -> list[Any] | None:
            if dtype == torch.float64:
                return None
            wide = _gradients_of(op, widened(sample))
            return None if wide is None else [wide[i] for i in there]

        given, wanted = [actual[i] for i in there], [expected[i] for i in there]
        try:
            _hold(op, dtype, given, wanted, not draws_random_numbers(op, sample), exact)
        except AssertionError:
            rounded = dtype in HALF_PRECISION or case_name(op) in ledger.ILL_CONDITIONED_BACKWARD
            wide = exact() if rounded else None
            if wide is None or not all(map(_as_near_as_the_cpu, given, wanted, wide)):
                raise
        compared += len(there)
    _require(compared > 0, "nothing was compared")
