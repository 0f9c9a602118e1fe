"""Each operator of a tensor and numbers, with numbers near and beyond what the tensor's dtype holds: as an argument, as
a Python number in the place of a tensor, and as a tensor without dimensions on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from fuzz.eager import difference, words
from fuzz.rounds import Fuzz

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int64]
VALUES = [0.0, -0.0, 1.0, -2.5, 100.0, 0.001, 6e4, 1e-7, float("inf"), float("nan"), 3.0, 512.0]
NUMBERS = [
    *(65536.0, 70000, 1e10, -1e6, 1e-9, 6e-8, 3e38, 65519.0, 65505.0, 1.0001, 0.1, 3, -0.0, 1e39, 2**31, 300, -129),
    *(float("inf"), float("nan")),
]
# Random ones, those that loop as often as the number says, those whose operands are more than values, and what differs
# with reason: sub and rsub, whose scaled operand the CPU rounds before it subtracts.
EXCEPT = words(
    "rand binomial bernoulli normal uniform cauchy exponential geometric dropout poisson gamma dirichlet empty "
    "_foreach backward resize quantize fft linalg multi new_full polynomial zeta polygamma fbgemm lu_ lstsq ctc "
    "conv pool upsample nested ormqr chol triang grid gru lstm rnn embedding resolve sparse stft cell norm qr svd "
    "eig inverse det solve as_strided values indices unsafe mkldnn miopen cudnn unique search bucket histc bincount "
    "put scatter gather index take segment cross nll cdist cov corr matrix gradient repeat_interleave coalesce sync "
    "local trace vander set rot rename align sub kron inner prelu quantile l1_loss margin"
)


def operators() -> Iterator[Any]:
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != "aten" or name.startswith("_") or any(part in name for part in EXCEPT):
            continue
        try:
            operator = getattr(getattr(torch.ops.aten, name), overload or "default")
        except AttributeError:
            continue
        if not operator._schema.is_mutable or name.endswith("_"):
            yield operator


def calls(operator: Any, dtype: torch.dtype) -> Iterator[tuple[list[Any], int]]:
    """Arguments of the operator on the CPU, and where the number stands."""
    base = torch.tensor(VALUES).nan_to_num(posinf=99).clamp(-99, 99).to(dtype) if not dtype.is_floating_point else None
    base = torch.tensor(VALUES).to(dtype) if base is None else base
    parameters = operator._schema.arguments
    kinds = [str(parameter.type) for parameter in parameters]
    tensors = [i for i, kind in enumerate(kinds) if kind == "Tensor"]
    numbers = [i for i, kind in enumerate(kinds) if kind in ("number", "float", "Optional[number]", "Optional[float]")]
    given = {*tensors, *numbers}
    if tensors[:1] != [0] or any(i not in given and not p.has_default_value() for i, p in enumerate(parameters)):
        return

    def default(i: int) -> Any:
        if i in tensors:
            return base.roll(i)
        if i in numbers:
            return None if "Optional" in kinds[i] else 1.5
        return parameters[i].default_value

    positional = [i for i, parameter in enumerate(parameters) if i in given or not parameter.kwarg_only]
    for place in (*numbers, *tensors[1:]):
        for number in NUMBERS:
            # PyTorch's own kernel, which computes for both sides, gave two answers on one machine: NaN, and no bound.
            if "logit" in str(operator) and number != number:
                continue
            forms: list[Any] = [number]
            if place in tensors and isinstance(number, float):
                forms.append(torch.tensor(number))
            for form in forms:
                yield [form if i == place else default(i) for i in positional], place


def outcome(operator: Any, arguments: list[Any]) -> Any:
    try:
        result = operator(*arguments)
        torch.accelerator.synchronize()  # where errors of asynchronous work are reported
        return result
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_beyond_the_dtype(fuzz: Fuzz, device: torch.device, dtype: torch.dtype) -> None:
    findings, made = [], 0
    for operator in operators():
        for arguments, place in calls(operator, dtype):
            expected = outcome(operator, [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments])
            moved = [x.to(device) if isinstance(x, torch.Tensor) and x.dim() > 0 else x for x in arguments]
            actual = outcome(operator, moved)
            made += 1
            if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
                problem = difference(expected, actual)
            else:
                problem = None if type(expected) is type(actual) else "another outcome"
            if problem:
                findings.append(f"{operator}, argument {place} is {arguments[place]}: {problem}, {actual}, {expected}")
                break
    fuzz.made("calls with numbers beyond the dtype", made)
    assert not findings, "\n".join(findings)
    assert made > 3000


#: Operators of lists and numbers: how many lists they take, and whether the number may be a tensor.
LISTS = {
    "add": (1, True),
    "sub": (1, False),
    "mul": (1, True),
    "div": (1, True),
    "maximum": (1, False),
    "minimum": (1, False),
    "clamp_min": (1, False),
    "clamp_max": (1, False),
    "pow": (1, False),
    "lerp": (2, False),
    "addcmul": (3, False),
    "addcdiv": (3, False),
    "_add": (2, False),  # with `alpha`
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", LISTS)
def test_lists_and_numbers_beyond_the_dtype(fuzz: Fuzz, device: torch.device, name: str, dtype: torch.dtype) -> None:
    count, takes_tensors = LISTS[name]
    lists = [[torch.tensor(VALUES).to(dtype).roll(i), torch.tensor([[2.0], [0.5]]).to(dtype)] for i in range(count)]
    moved = [[x.to(device) for x in one] for one in lists]
    findings = []
    for number in NUMBERS:
        forms: list[Any] = [number, [number, 2.0], *([torch.tensor(number)] if takes_tensors else [])]
        for form in forms:
            if name.startswith("_"):
                if isinstance(form, list):
                    continue
                add = partial(torch._foreach_add, alpha=form)
                expected, actual = outcome(add, lists), outcome(add, moved)
            else:
                operator = getattr(torch, f"_foreach_{name}")
                expected, actual = (outcome(operator, [*x, form]) for x in (lists, moved))
            fuzz.made("calls of lists with numbers beyond the dtype")
            if isinstance(expected, list) != isinstance(actual, list):
                findings.append(f"{form}: {actual}, on the CPU {expected}")
            elif isinstance(expected, list):
                problems = [problem for problem in map(difference, expected, actual) if problem]
                findings += [f"{form}: {problem}, {actual}, on the CPU {expected}" for problem in problems[:1]]
    assert not findings, "\n".join(findings[:6])
