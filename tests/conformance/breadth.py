"""Each operator of PyTorch's database asked in many ways, with the CPU's answer as the only reference.

A *question* calls an operator for one of its samples in one way: in place, with ``out=``, under forward-mode
differentiation, with operands that lie elsewhere in memory …. The function that asks is the same for both devices and
gets the operands on one of them; what counts is that both give the same values, dtypes, shapes and strides, or that
both raise. In half precision, and of a derivative, an answer that misses the CPU's counts as right if each of its
elements is, within the tolerance of its precision, what float64 gives, or no farther from it than the CPU's element.
"""

from __future__ import annotations

import fnmatch
import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

from torch_mydev.conform.operators import harness
from torch_mydev.conform.operators.ledger import UNDEFINED_CONTENTS

from . import ledger

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.bool,
)

Results = list[Any]
Ask = Callable[[OpInfo, SampleInput], Results]


@dataclass(frozen=True)
class Question:
    ask: Ask
    applies: Callable[[OpInfo, torch.dtype], bool]
    prepare: Callable[[torch.Tensor], torch.Tensor] | None = None  #: changes how each operand lies in memory
    requires_grad: bool = False


def _call(op: Callable[..., Any], sample: SampleInput) -> Results:
    return harness.run(op, sample)


# --- ways to ask ------------------------------------------------------------------------------------------------------


def _in_place(op: OpInfo, sample: SampleInput) -> Results:
    target = sample.input.clone()
    variant = op.inplace_variant
    assert variant is not None
    result = variant(target, *sample.args, **sample.kwargs)
    return [target, result is target]


def _outs(op: OpInfo, sample: SampleInput, make: Callable[[torch.Tensor], torch.Tensor]) -> Results:
    expected = op(sample.input, *sample.args, **sample.kwargs)
    single = isinstance(expected, torch.Tensor)
    outs = [make(tensor) for tensor in ([expected] if single else expected)]
    op(sample.input, *sample.args, **sample.kwargs, out=outs[0] if single else tuple(outs))
    return outs


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """Elements of the same sizes with gaps between them."""
    sizes = (*tensor.shape, 2)
    return torch.zeros(sizes, dtype=tensor.dtype, device=tensor.device)[..., 0]


def _of_other_dtype(tensor: torch.Tensor) -> torch.Tensor:
    other = torch.float64 if tensor.dtype != torch.float64 else torch.int32
    return torch.zeros(tensor.shape, dtype=other, device=tensor.device)


def _differentiable(results: Results) -> list[torch.Tensor]:
    return [t for t in results if isinstance(t, torch.Tensor) and t.requires_grad]


def _leaves(sample: SampleInput) -> list[torch.Tensor]:
    leaves = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]


def _weights(tensor: torch.Tensor) -> torch.Tensor:
    """Cotangents and tangents that are the same on both devices and of no particular symmetry."""
    numbers = torch.arange(1, tensor.numel() + 1, dtype=torch.float64).sin().to(tensor.dtype).reshape(tensor.shape)
    return numbers.to(tensor.device)


def _gradients(op: OpInfo, sample: SampleInput) -> Results:
    outputs = _differentiable(_call(op, sample))
    if not outputs:
        return []
    return list(torch.autograd.grad(outputs, _leaves(sample), [_weights(t) for t in outputs], allow_unused=True))


def _second_gradients(op: OpInfo, sample: SampleInput) -> Results:
    outputs = _differentiable(_call(op, sample))
    if not outputs:
        return []
    leaves = _leaves(sample)
    seeds = [_weights(t).requires_grad_() for t in outputs]
    first = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True, create_graph=True)
    again = _differentiable(list(first))
    if not again:
        return []
    return list(torch.autograd.grad(again, [*leaves, *seeds], [_weights(t) for t in again], allow_unused=True))


def _tangents(op: OpInfo, sample: SampleInput) -> Results:
    with torch.autograd.forward_ad.dual_level():

        def dual(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.requires_grad:
                return torch.autograd.forward_ad.make_dual(value.detach(), _weights(value))
            return value

        moved = SampleInput(
            tree_map(dual, sample.input), args=tree_map(dual, sample.args), kwargs=tree_map(dual, sample.kwargs)
        )
        moved.output_process_fn_grad = sample.output_process_fn_grad
        unpacked = [torch.autograd.forward_ad.unpack_dual(t) for t in _call(op, moved) if isinstance(t, torch.Tensor)]
        # A result without a tangent is constant.
        return [torch.zeros_like(p) if t is None else t.clone() for p, t in unpacked if p.is_floating_point()]


def _mapped(op: OpInfo, sample: SampleInput) -> Results:
    def call(value: torch.Tensor) -> Any:
        return op(value, *sample.args, **sample.kwargs)

    return tree_flatten(torch.vmap(call)(torch.stack([sample.input, sample.input.flip(-1)])))[0]


# --- ways in which operands lie in memory -----------------------------------------------------------------------------


def _conjugated(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.conj().resolve_conj().conj() if tensor.is_complex() else tensor


def _negated(tensor: torch.Tensor) -> torch.Tensor:
    return torch._neg_view(-tensor) if tensor.is_floating_point() or tensor.is_complex() else tensor


def _odd_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same bools, whose bytes are neither 0 nor 1 where they are true."""
    if tensor.dtype != torch.bool:
        return tensor
    numbers = torch.arange(tensor.numel()).reshape(tensor.shape) * 2 % 254 + 2
    return torch.where(tensor.cpu(), numbers, 0).to(torch.uint8).to(tensor.device).view(torch.bool)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    if tensor.dim() == 5:
        return tensor.contiguous(memory_format=torch.channels_last_3d)
    return tensor


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """With gaps between the elements, and before the first."""
    spread = torch.zeros((*tensor.shape, 3), dtype=tensor.dtype, device=tensor.device)[..., 1]
    return spread.copy_(tensor)


# --- the table --------------------------------------------------------------------------------------------------------


def _always(op: OpInfo, dtype: torch.dtype) -> bool:
    return True


def _has_gradient(op: OpInfo, dtype: torch.dtype) -> bool:
    return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu") and dtype == torch.float32


QUESTIONS: dict[str, Question] = {
    "forward": Question(_call, _always),
    "in-place": Question(_in_place, lambda op, dtype: op.inplace_variant is not None),
    "out": Question(lambda op, sample: _outs(op, sample, torch.zeros_like), lambda op, dtype: op.supports_out),
    "out-empty": Question(
        lambda op, sample: _outs(op, sample, lambda t: t.new_empty(0)), lambda op, d: op.supports_out
    ),
    "out-apart": Question(lambda op, sample: _outs(op, sample, _apart), lambda op, dtype: op.supports_out),
    "out-dtype": Question(lambda op, sample: _outs(op, sample, _of_other_dtype), lambda op, dtype: op.supports_out),
    "conj": Question(_call, lambda op, dtype: dtype.is_complex, _conjugated),
    "neg": Question(_call, lambda op, dtype: dtype.is_complex or dtype.is_floating_point, _negated),
    "odd-bools": Question(_call, lambda op, dtype: dtype in (torch.bool, torch.float32), _odd_bytes),
    "channels-last": Question(_call, _always, _channels_last),
    "transposed": Question(_call, _always, _transposed),
    "spread": Question(_call, _always, _spread),
    "backward": Question(_gradients, _has_gradient, None, requires_grad=True),
    "backward-channels-last": Question(_gradients, _has_gradient, _channels_last, requires_grad=True),
    "second-backward": Question(
        _second_gradients, lambda op, dtype: _has_gradient(op, dtype) and op.supports_gradgrad, requires_grad=True
    ),
    "forward-ad": Question(
        _tangents, lambda op, dtype: _has_gradient(op, dtype) and op.supports_forward_ad, requires_grad=True
    ),
    "vmap": Question(_mapped, lambda op, dtype: dtype == torch.float32),
}


@dataclass(frozen=True)
class Case:
    op: OpInfo
    question: str
    dtype: torch.dtype

    @property
    def name(self) -> str:
        return f"{harness.case_name(self.op)}-{self.question}-{str(self.dtype).removeprefix('torch.')}"

    @property
    def ill_conditioned(self) -> bool:
        return any(fnmatch.fnmatchcase(self.name, pattern) for pattern in ledger.ILL_CONDITIONED)


def cases(share: int, remainder: int = 0) -> list[Case]:
    """One in ``share`` of all cases, chosen by their names: the same ones each time, others for each remainder."""
    every = [
        Case(op, name, dtype)
        for op in harness.OPERATORS
        if op.name not in ledger.REPLACED
        for name, question in QUESTIONS.items()
        for dtype in DTYPES
        if dtype in op.supported_dtypes("cpu") and question.applies(op, dtype)
    ]
    return [case for case in every if zlib.crc32(case.name.encode()) % share == remainder]


def _samples(case: Case, question: Question, limit: int) -> Iterator[SampleInput]:
    generated = harness.sample_inputs(case.op, case.dtype, requires_grad=question.requires_grad)
    for sample in itertools.islice(generated, limit):
        if question.prepare is None:
            yield sample
        else:
            yield _prepared(sample, question.prepare)


def _prepared(sample: SampleInput, prepare: Callable[[torch.Tensor], torch.Tensor]) -> SampleInput:
    def change(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        return prepare(value.detach()).requires_grad_(value.requires_grad)

    changed = SampleInput(
        tree_map(change, sample.input), args=tree_map(change, sample.args), kwargs=tree_map(change, sample.kwargs)
    )
    changed.output_process_fn_grad = sample.output_process_fn_grad
    return changed


def _answer(question: Question, op: OpInfo, sample: SampleInput) -> Results | Exception:
    torch.manual_seed(0)
    try:
        return question.ask(op, sample)
    except Exception as error:
        return error


def check(case: Case, limit: int) -> int:
    """Asks on the CPU and on the device; returns how many samples had an answer to compare."""
    question = QUESTIONS[case.question]
    compared = 0
    for sample in _samples(case, question, limit):
        moved = harness.on_device(sample)
        expected, actual = (_answer(question, case.op, s) for s in (sample, moved))
        if isinstance(expected, Exception) or isinstance(actual, Exception):
            _compare_errors(actual, expected)
            continue
        try:
            _compare_results(case, actual, expected, values=not harness.draws_random_numbers(case.op, sample))
        except AssertionError:
            if case.dtype not in harness.HALF_PRECISION and not question.requires_grad:
                raise
            # Asked for another dtype, float64 would give that; what counts is what it computes.
            asked = QUESTIONS["forward"] if case.question == "out-dtype" else question
            exact = _answer(asked, case.op, harness.widened(sample))
            near = not isinstance(exact, Exception) and _near_float64(case, actual, expected, exact)
            if not near and not (case.ill_conditioned and _moves_as_far(case, sample, actual, expected)):
                raise
        compared += 1
    return compared


def _near_float64(case: Case, actual: Results, expected: Results, exact: Results) -> bool:
    """Whether each result is near what float64 gives, or as near as the CPU's; layouts count as before."""
    _compare_layouts(actual, expected)
    for a, e, x in zip(actual, expected, exact, strict=True):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            if not torch.equal(torch.as_tensor(a).cpu(), torch.as_tensor(e)):
                return False
        elif not harness.near_float64(a, e, x, harness.tolerance(case.op, case.dtype)):
            return False
    return True


def _nudged(sample: SampleInput, generator: torch.Generator) -> SampleInput:
    """Each number one rounding away, up or down, or as it is."""

    def nudge(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        steps = torch.randint(-1, 2, value.shape, generator=generator) * torch.finfo(value.dtype).eps
        return (value.detach() * (1 + steps.to(value.dtype))).requires_grad_(value.requires_grad)

    changed = SampleInput(
        tree_map(nudge, sample.input), args=tree_map(nudge, sample.args), kwargs=tree_map(nudge, sample.kwargs)
    )
    changed.output_process_fn_grad = sample.output_process_fn_grad
    return changed


def _moves_as_far(case: Case, sample: SampleInput, actual: Results, expected: Results) -> bool:
    """Whether the CPU's own answer moves as far as the device is from it, when operands move by a rounding."""
    _compare_layouts(actual, expected)
    generator = torch.Generator().manual_seed(0)
    moves = [_answer(QUESTIONS[case.question], case.op, _nudged(sample, generator)) for _ in range(20)]
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        reach = max((m[i] - e).abs().max() for m in moves if not isinstance(m, Exception))
        if (a.detach().cpu() - e).abs().max() > reach:
            return False
    return True


def _compare_errors(actual: Results | Exception, expected: Results | Exception) -> None:
    if not isinstance(expected, Exception):
        raise AssertionError("raises on the device only") from actual
    # The device may have a kernel where the CPU has none.
    if isinstance(actual, Exception) or "not implemented" in str(expected):
        return
    raise AssertionError("raises on the CPU only") from expected


def _compare_results(case: Case, actual: Results, expected: Results, *, values: bool) -> None:
    assert len(actual) == len(expected), f"{len(actual)} results, on the CPU {len(expected)}"
    values = values and harness.case_name(case.op) not in UNDEFINED_CONTENTS
    # A result of another dtype than asked for was rounded to the dtype that it was computed in.
    computed = case.dtype if case.dtype.is_floating_point else torch.float32
    computed = computed if case.question == "out-dtype" else torch.float64
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, torch.Tensor):
            allowed = harness.tolerance(case.op, computed if e.dtype == torch.float64 else e.dtype)
            harness.compare(a, e, values=values, tolerance=allowed)
        else:
            harness.compare(a, e, values=values)
    _compare_layouts(actual, expected)


def _compare_layouts(actual: Results, expected: Results) -> None:
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, torch.Tensor) and e.layout == torch.strided and e.numel() > 0:
            assert a.stride() == e.stride(), f"strides {a.stride()}, on the CPU {e.stride()}"
