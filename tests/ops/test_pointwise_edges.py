"""Edge cases of pointwise operators: out= of another dtype, signed zeros, large numbers, elements that share memory,
small floating types. The device refuses what the CPU refuses, and gives what the CPU gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from support.parity import raises_in_a_kernel
from support.pointwise_operands import check_outcome

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
ZEROS = [[0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0]]
SPECIAL = [0.0, -0.0, 1.5, -1.0, float("inf"), -float("inf"), float("nan")]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (torch.float32, torch.float64),
        (torch.float64, torch.float32),
        (torch.float32, torch.int64),
        (torch.int64, torch.float32),
        (torch.int32, torch.int64),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "name",
    ["neg", "floor", "ceil", "round", "trunc", "frac", "abs", "sign", "bitwise_not", "exp", "sigmoid", "logical_not"],
)
def test_out_of_another_dtype_is_as_on_cpu(
    device: torch.device, name: str, given: torch.dtype, wanted: torch.dtype
) -> None:
    def run(operand: torch.Tensor) -> torch.Tensor:
        out = torch.empty(3, dtype=wanted, device=operand.device)
        return getattr(torch, name)(operand, out=out)  # type: ignore[no-any-return]

    check_outcome(device, run, torch.tensor([1.5, -2.5, 3]).to(given))


@pytest.mark.parametrize("weight", [0.3, torch.full((2,), 0.3), torch.full((2,), 0.3, dtype=torch.float64)], ids=str)
@pytest.mark.parametrize("end", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("start", [torch.float32, torch.float64], ids=str)
def test_lerp_takes_one_dtype(
    device: torch.device, start: torch.dtype, end: torch.dtype, weight: float | torch.Tensor
) -> None:
    check_outcome(device, torch.lerp, torch.ones(2, dtype=start), torch.zeros(2, dtype=end), weight)


@pytest.mark.parametrize("number", [0, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1, -1, 1.5])
@pytest.mark.parametrize("dtype", [torch.uint64, torch.int64, torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "ge", "add", "mul", "fill", "masked_fill"])
def test_integers_beyond_63_bits(device: torch.device, name: str, dtype: torch.dtype, number: float) -> None:
    def run(operand: torch.Tensor) -> torch.Tensor:
        if name == "fill":
            return operand.clone().fill_(number)
        if name == "masked_fill":
            return operand.masked_fill(torch.tensor([True, False, True], device=operand.device), number)
        return getattr(operand, name)(number)  # type: ignore[no-any-return]

    values = torch.tensor([0, 2**63 + 5, 2**64 - 1] if dtype == torch.uint64 else [0, 5, 100], dtype=dtype)
    check_outcome(device, run, values)


@pytest.mark.parametrize("target", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8], ids=str)
@pytest.mark.parametrize("origin", FLOATS, ids=str)
@pytest.mark.parametrize("count", [5, 100])
def test_negative_numbers_wrap_into_unsigned(
    device: torch.device, origin: torch.dtype, target: torch.dtype, count: int
) -> None:
    values = torch.tensor([-1.0, -2.5, -100, 3.7, 100] * (count // 5)).to(origin)
    check_outcome(device, lambda t: t.to(target), values)
    check_outcome(device, lambda t: t[::2].to(target), values)


@pytest.mark.parametrize("alpha", [-1, 3, -2])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
@pytest.mark.parametrize("name", ["add", "sub"])
def test_factors_beyond_a_small_type_wrap(device: torch.device, name: str, dtype: torch.dtype, alpha: int) -> None:
    operands = torch.arange(6, dtype=dtype), torch.full((6,), 2, dtype=dtype)
    actual = getattr(torch, name)(*(operand.to(device) for operand in operands), alpha=alpha)
    assert torch.equal(actual.cpu(), getattr(torch, name)(*operands, alpha=alpha))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: torch.maximum(a, b),
        lambda a, b: torch.minimum(a, b),
        lambda a, _: a.clamp_min(0.0),
        lambda a, _: a.clamp_min(-0.0),
        lambda a, _: a.clamp_max(0.0),
        lambda a, _: a.clamp_max(-0.0),
        lambda a, _: a.clamp(0.0, 1.0),
        lambda a, _: a.clamp(-1.0, -0.0),
        lambda a, _: F.relu(a),
        lambda a, _: a.round(),
    ],
    ids=["maximum", "minimum", "min 0", "min -0", "max 0", "max -0", "clamp", "clamp -0", "relu", "round"],
)
def test_signs_of_zeros(
    device: torch.device, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    check_outcome(device, function, torch.tensor(ZEROS[0], dtype=dtype), torch.tensor(ZEROS[1], dtype=dtype))


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, -2, 3, -3, 1.0, -1, 0.0, 2.5, float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_zeros_and_infinities(device: torch.device, dtype: torch.dtype, exponent: float) -> None:
    values = torch.tensor(SPECIAL, dtype=dtype)
    check_outcome(device, lambda t: t**exponent, values)
    check_outcome(device, lambda t: t ** torch.tensor(exponent, dtype=dtype, device=t.device), values)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("function", [F.leaky_relu, F.leaky_relu_, F.elu, F.elu_], ids=lambda f: f.__name__)
def test_gradient_of_activation_in_place(
    device: torch.device, function: Callable[..., torch.Tensor], slope: float
) -> None:
    def gradient(operand: torch.Tensor) -> torch.Tensor:
        leaf = operand.detach().requires_grad_()
        return torch.autograd.grad(function(leaf * 1, slope).sum(), leaf)[0]

    check_outcome(device, gradient, torch.tensor([1.0, -2.0, 3.0]))


EXPANDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "fill": lambda t: t.fill_(2),
    "fill_tensor": lambda t: t.fill_(torch.tensor(2.0, device=t.device)),
    "fill_number_of_cpu": lambda t: t.fill_(torch.tensor(2.0)),
    "zero": lambda t: t.zero_(),
    "masked_fill": lambda t: t.masked_fill(t > 1, 3),
    "masked_fill_in_place": lambda t: t.masked_fill_(t > 1, 3),
    "fill_row": lambda t: t[0].fill_(5),
    "resize": lambda t: t.resize_(3, 4),
    "resize_smaller": lambda t: t.clone().expand(2, 3, 4).resize_(2, 3),
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "full_like": lambda t: torch.full_like(t, 2),
    "rand_like": lambda t: torch.zeros_like(torch.rand_like(t)),
    "add": lambda t: t.add_(1),
    "copy": lambda t: t.copy_(t.clone()),
    "clamp": lambda t: t.clamp_(0, 1),
    "out": lambda t: torch.add(t, 1, out=t),
}


@pytest.mark.parametrize("name", EXPANDED)
@pytest.mark.filterwarnings("ignore:Use of masked_fill_ on expanded tensors")
def test_elements_that_share_memory(device: torch.device, name: str) -> None:
    check_outcome(device, lambda t: EXPANDED[name](t[:, None].expand(3, 4)), torch.arange(3.0))


@pytest.mark.parametrize("number", [0, 1, 2.5, -1, 300, 1e6, float("nan"), True])
@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz], ids=str
)
def test_eight_bit_floats_are_filled(device: torch.device, dtype: torch.dtype, number: float) -> None:
    def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view(torch.uint8)

    check_outcome(device, lambda t: bytes_of(torch.empty(3, dtype=dtype, device=t.device).fill_(number)), torch.ones(1))
    check_outcome(device, lambda t: bytes_of(torch.full((3,), number, dtype=dtype, device=t.device)), torch.ones(1))
    check_outcome(device, lambda t: bytes_of(torch.tensor([number] * 2, dtype=dtype, device=t.device)), torch.ones(1))
    check_outcome(device, lambda t: torch.tensor([number] * 2, device=t.device).to(dtype).float(), torch.ones(1))
    check_outcome(device, lambda t: bytes_of(t[::2].to(dtype)), torch.full((6,), float(number)))


@pytest.mark.parametrize("index", [7, 3, -1])
def test_gather_beyond_its_dimension_is_refused(device: torch.device, index: int) -> None:
    source, indices = torch.zeros(3, 3, device=device), torch.full((3, 3), index, device=device)
    with raises_in_a_kernel(RuntimeError, rf"index {index} is out of bounds for dimension 0 with size 3"):
        torch.gather(source, 0, indices).cpu()


def test_conj_physical_in_place(device: torch.device) -> None:
    numbers = torch.tensor([1 + 2j, -3j, 4.0], dtype=torch.complex64)
    assert torch.equal(numbers.to(device).conj_physical_().cpu(), numbers.clone().conj_physical_())


def test_complex_half_warns_once_as_on_cpu(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = """
import warnings
import torch, torch_mydev
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        numbers = torch.zeros(2, dtype=torch.complex32, device=torch_mydev.device_name)
print(len(caught), caught[0].message)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("1 ComplexHalf support is experimental")


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
def test_where_by_a_condition_on_the_cpu(device: torch.device, condition: bool, dtype: torch.dtype) -> None:
    a, b = torch.tensor([1, 2, 3], dtype=dtype), torch.tensor([4, 5, 6], dtype=dtype)
    actual = torch.where(torch.tensor(condition), a.to(device), b.to(device))
    assert torch.equal(actual.cpu(), torch.where(torch.tensor(condition), a, b))


@pytest.mark.parametrize("length", [1, 7, 16, 33, 1000])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_bfloat16_arithmetic_is_rounded_once(name: str, length: int, device: torch.device) -> None:
    """Dense operands, a number, a broadcast row: infinities, NaN, signed zeros, denormals, overflow; bit by bit."""
    values = torch.tensor([*SPECIAL, 1e-40, -3e38, 3.3e38, 1.0078125, 255.0, 1 / 3]).bfloat16()
    generator = torch.Generator().manual_seed(length)
    a, b = (values[torch.randint(len(values), (3, length), generator=generator)] for _ in range(2))
    function = getattr(torch, name)
    for left, right in ((a, b), (a, b[:1]), (a.t(), b.t()), (a, 0.1)):
        moved = right.to(device) if isinstance(right, torch.Tensor) else right
        torch.testing.assert_close(
            function(left.to(device), moved).cpu(), function(left, right), rtol=0, atol=0, equal_nan=True
        )


# The operand grows by broadcasting; each form casts something.
GROWING = {
    "lt_": lambda x, other: x.lt_(other),
    "add_": lambda x, other: x.add_(other.to(torch.int16)),
    "mul_ by a wider one": lambda x, other: x.mul_(other.double()),
    "logical_or_": lambda x, other: x.logical_or_(other),
    "out= is the second operand": lambda x, other: torch.add(other, x, out=x),
    "out= is the first operand": lambda x, other: torch.maximum(x, other.double(), out=x),
    "masked_fill_": lambda x, other: x.masked_fill_(other.bool(), 2),
    "clamp_min_": lambda x, other: x.clamp_min_(other),
    "addcmul_": lambda x, other: x.addcmul_(other, other),
}


@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("name", GROWING)
def test_an_operand_that_is_written_never_grows(device: torch.device, name: str, dtype: torch.dtype) -> None:
    base = torch.ones(8, dtype=dtype, device=device)
    with pytest.raises(RuntimeError):
        GROWING[name](base.cpu()[2:3], torch.zeros(4))
    with pytest.raises(RuntimeError):
        GROWING[name](base[2:3], torch.zeros(4, device=device))
    assert torch.equal(base.cpu(), torch.ones(8, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32], ids=str)
@pytest.mark.parametrize("exponent", [torch.int8, torch.int32, torch.int64, torch.float32, torch.bool], ids=str)
def test_ldexp_scales_by_powers_beyond_the_type(
    device: torch.device, dtype: torch.dtype, exponent: torch.dtype
) -> None:
    x = torch.tensor([0.0, -0.0, 1e-30, 3.0, 1e30, -5e-7, float("inf"), float("nan")]).to(dtype)
    for power in (120, 24, 1, 0, -1, -24, -120):
        check_outcome(device, torch.ldexp, x, torch.full((8,), power).to(exponent))
    if exponent == torch.int64:
        for power in (200, -200, 2000, -2000):
            check_outcome(device, torch.ldexp, x, torch.full((8,), power))
