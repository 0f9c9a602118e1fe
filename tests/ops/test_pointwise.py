"""Pointwise operators against the CPU: every op and dtype; out=, in-place and errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from support.parity import raises_in_a_kernel
from support.pointwise_operands import DTYPES, check, column, contiguous, on, row, sliced, transposed, values

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]

UNARY_FLOAT = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sqrt", "rsqrt", "reciprocal", "sigmoid",
]  # fmt: skip
ROUNDING = ["floor", "ceil", "round", "trunc", "frac"]
UNARY_NUMBER = ["abs", "neg", "sign", "relu"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
DIVISIONS: list[tuple[str, dict[str, Any]]] = [
    ("div", {"rounding_mode": "trunc"}),
    ("div", {"rounding_mode": "floor"}),
    ("floor_divide", {}),
    ("remainder", {}),
    ("fmod", {}),
]
ACTIVATIONS: list[tuple[Callable[..., torch.Tensor], dict[str, Any]]] = [
    (F.relu, {}),
    (F.gelu, {}),
    (F.gelu, {"approximate": "tanh"}),
    (F.silu, {}),
    (F.mish, {}),
    (F.elu, {"alpha": 1.3}),
    (F.selu, {}),
    (F.celu, {"alpha": 0.7}),
    (F.softplus, {"beta": 2.0, "threshold": 3.0}),
    (F.logsigmoid, {}),
    (F.leaky_relu, {"negative_slope": 0.2}),
    (F.hardtanh, {"min_val": -0.5, "max_val": 0.7}),
    (F.relu6, {}),
    (F.hardswish, {}),
    (F.hardsigmoid, {}),
    (torch.sigmoid, {}),
    (torch.tanh, {}),
    (torch.clamp, {"min": -0.5}),
    (torch.clamp, {"min": -0.5, "max": 0.25}),
]
SPECIALS = [0.0, -0.0, 1.0, -1.0, 0.5, float("inf"), float("-inf"), float("nan"), 100.0, -100.0, 1e-30, 3.0, -3.0]


# --- every op --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY_FLOAT + ROUNDING + UNARY_NUMBER)
def test_unary_function_of_floats(device: torch.device, name: str, dtype: torch.dtype) -> None:
    check(device, getattr(torch, name), torch.cat([values(1000, dtype=dtype), torch.tensor(SPECIALS, dtype=dtype)]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", ["exp", "sqrt", "sigmoid", "reciprocal", "sin"])
def test_integers_promote_to_floats(device: torch.device, name: str, dtype: torch.dtype) -> None:
    check(device, getattr(torch, name), values(100, dtype=dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", UNARY_NUMBER)
def test_unary_function_of_integers(device: torch.device, name: str, dtype: torch.dtype) -> None:
    check(device, getattr(torch, name), values(100, dtype=dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS, *LOGIC, "true_divide"])
def test_binary_op(device: torch.device, name: str, dtype: torch.dtype) -> None:
    a, b = values(1000, dtype=dtype), values(1000, dtype=dtype, seed=1)
    check(device, getattr(torch, name), a, b)


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS, "pow", "atan2", "fmod", "remainder"])
def test_binary_op_of_special_values(device: torch.device, name: str) -> None:
    a, b = (torch.tensor(side) for side in zip(*itertools.product(SPECIALS, SPECIALS), strict=True))
    check(device, getattr(torch, name), a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.int8], ids=str)
@pytest.mark.parametrize(("name", "options"), DIVISIONS)
def test_division(device: torch.device, name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    a, b = values(1000, dtype=dtype) * 3, values(1000, dtype=dtype, seed=1)
    b[b == 0] = 1
    check(device, getattr(torch, name), a, b, native=dtype != torch.float16, **options)


@pytest.mark.parametrize(("name", "options"), DIVISIONS)
def test_integer_division_by_zero_raises_as_on_the_cpu(
    device: torch.device, name: str, options: dict[str, Any]
) -> None:
    a, b = torch.tensor([1, 2], device=device), torch.tensor([1, 0], device=device)
    with raises_in_a_kernel(RuntimeError, "ZeroDivisionError"):
        getattr(torch, name)(a, b, **options).cpu()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", BITS)
def test_bitwise_op(device: torch.device, name: str, dtype: torch.dtype) -> None:
    check(device, getattr(torch, name), values(100, dtype=dtype), values(100, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64], ids=str)
def test_bitwise_not(device: torch.device, dtype: torch.dtype) -> None:
    check(device, torch.bitwise_not, values(100, dtype=dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shift_by_any_count(device: torch.device, name: str, dtype: torch.dtype) -> None:
    counts = torch.arange(9).repeat(10).to(dtype)
    check(device, getattr(torch, name), values(90, dtype=dtype), counts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not"])
def test_predicate(device: torch.device, name: str, dtype: torch.dtype) -> None:
    tensor = (
        torch.tensor(SPECIALS).nan_to_num().to(dtype) if dtype == torch.int64 else torch.tensor(SPECIALS, dtype=dtype)
    )
    check(device, getattr(torch, name), tensor, native=dtype.is_floating_point)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1.5])
def test_power_of_a_number(device: torch.device, exponent: float, dtype: torch.dtype) -> None:
    check(device, torch.pow, values(100, dtype=dtype), exponent)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "eq", "ne"])
def test_complex_op(device: torch.device, name: str, dtype: torch.dtype) -> None:
    check(device, getattr(torch, name), values(100, dtype=dtype), values(100, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("function", "options"), ACTIVATIONS)
def test_activation(
    device: torch.device, function: Callable[..., torch.Tensor], options: dict[str, Any], dtype: torch.dtype
) -> None:
    points = torch.cat([values(1000, dtype=dtype), torch.tensor(SPECIALS, dtype=dtype)])
    check(device, function, points[~points.isinf()], **options)  # the CPU's gelu(inf) is NaN


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("function", "options"), ACTIVATIONS)
def test_activation_backward(
    device: torch.device, function: Callable[..., torch.Tensor], options: dict[str, Any], dtype: torch.dtype
) -> None:
    def gradient(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        leaf = x.detach().requires_grad_()
        (result,) = torch.autograd.grad(function(leaf, **options), leaf, grad)
        return result

    points = torch.cat([values(1000, dtype=dtype), torch.tensor([0.0, 3.0, -3.0, 6.0, 50.0, -50.0], dtype=dtype)])
    check(device, gradient, points, values(1006, dtype=dtype, seed=1))


# --- where, fill, ternary --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8, torch.bool, torch.complex64], ids=str)
def test_where(device: torch.device, dtype: torch.dtype) -> None:
    condition = values(6, 70, dtype=torch.bool)
    check(device, torch.where, condition, contiguous(dtype, 1), row(dtype, 2))


def test_where_with_numbers(device: torch.device) -> None:
    condition, tensor = values(50, dtype=torch.bool), values(50)
    check(device, lambda c, t: torch.where(c, t, 2.5), condition, tensor)
    check(device, lambda c, t: torch.where(c, -1.0, t), condition, tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("layout", [contiguous, transposed, sliced])
def test_masked_fill(device: torch.device, layout: Any, dtype: torch.dtype) -> None:
    check(device, lambda t, m: t.masked_fill(m, 7), layout(dtype, 0), row(torch.bool, 1))


def test_masked_fill_in_place_writes_through_a_view(device: torch.device) -> None:
    tensor, mask = values(6, 70), values(70, dtype=torch.bool)
    moved = tensor.to(device)
    tensor[1:3].masked_fill_(mask, -1)
    moved[1:3].masked_fill_(mask.to(device), -1)
    assert_close(moved.cpu(), tensor)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_fused_multiply_add(device: torch.device, name: str) -> None:
    operands = contiguous(torch.float32, 0), row(torch.float32, 1), column(torch.float32, 2)
    check(device, lambda a, b, c: getattr(torch, name)(a, b, c, value=0.5), *operands)


def test_lerp(device: torch.device) -> None:
    check(device, torch.lerp, values(50), values(50, seed=1), values(50, seed=2))
    check(device, lambda a, b: torch.lerp(a, b, 0.25), values(50), values(50, seed=1))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16], ids=str)
@pytest.mark.parametrize("number", [0, 3, True, 2.75])
def test_fill(device: torch.device, number: float, dtype: torch.dtype) -> None:
    tensor = torch.zeros(6, 8, dtype=dtype)
    moved = tensor.to(device)
    tensor[1:4, ::2].fill_(number)
    moved[1:4, ::2].fill_(number)
    assert_close(moved.cpu(), tensor)


def test_fill_with_a_value_that_does_not_fit_raises_as_on_the_cpu(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(3, dtype=torch.uint8, device=device).fill_(300)


# --- in-place and out= -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [contiguous, transposed, sliced])
def test_in_place_op_writes_the_operand(device: torch.device, layout: Any) -> None:
    tensor, other = layout(torch.float32, 0), row(torch.float32, 1)
    moved = on(device, tensor)
    address = moved.data_ptr()
    moved.mul_(on(device, other)).add_(1).tanh_()
    tensor.mul_(other).add_(1).tanh_()
    assert moved.data_ptr() == address
    assert_close(moved.cpu(), tensor)


def test_in_place_op_with_a_wider_operand_casts_back(device: torch.device) -> None:
    tensor, other = values(50, dtype=torch.float16), values(50)
    moved = tensor.to(device)
    moved += other.to(device)
    tensor += other
    assert_close(moved.cpu(), tensor)


def test_in_place_comparison_keeps_the_dtype(device: torch.device) -> None:
    tensor = values(50)
    assert_close(tensor.to(device).lt_(0.5).cpu(), tensor.lt_(0.5))


def test_out_is_resized_and_cast(device: torch.device) -> None:
    a, b = values(6, 70), values(70, seed=1)
    out = torch.empty(0, dtype=torch.float64, device=device)
    assert torch.add(a.to(device), b.to(device), out=out) is out
    assert_close(out.cpu(), (a + b).double())


def test_out_keeps_its_strides(device: torch.device) -> None:
    a, b = values(6, 7), values(6, 7, seed=1)
    out = torch.empty(7, 6, device=device).t()
    torch.mul(a.to(device), b.to(device), out=out)
    assert out.stride() == (1, 6)
    assert_close(out.cpu(), a * b)


def test_out_may_be_an_operand(device: torch.device) -> None:
    a = values(50)
    moved = a.to(device)
    torch.add(moved, moved, out=moved)
    assert_close(moved.cpu(), a + a)


# --- errors ----------------------------------------------------------------------------------------------------------


def overlapping(device: torch.device) -> None:
    tensor = torch.zeros(10, device=device)
    torch.add(tensor[:-1], 1, out=tensor[1:])


def written_twice(device: torch.device) -> None:
    torch.zeros(1, device=device).expand(5).add_(1)


def shapes_that_do_not_broadcast(device: torch.device) -> None:
    torch.zeros(3, device=device) + torch.zeros(4, device=device)


def in_place_that_would_grow(device: torch.device) -> None:
    torch.zeros(3, device=device).add_(torch.zeros(2, 3, device=device))


def in_place_that_would_change_kind(device: torch.device) -> None:
    torch.zeros(3, dtype=torch.int64, device=device).add_(0.5)


def float_alpha_for_integers(device: torch.device) -> None:
    torch.add(
        torch.zeros(3, dtype=torch.int64, device=device), torch.zeros(3, dtype=torch.int64, device=device), alpha=0.5
    )


def difference_of_bools(device: torch.device) -> None:
    torch.zeros(3, dtype=torch.bool, device=device) - torch.zeros(3, dtype=torch.bool, device=device)


def bits_of_floats(device: torch.device) -> None:
    torch.zeros(3, device=device) & torch.zeros(3, device=device)


def negative_power_of_integers(device: torch.device) -> None:
    torch.zeros(3, dtype=torch.int64, device=device) ** -1


def unknown_approximation(device: torch.device) -> None:
    F.gelu(torch.zeros(3, device=device), approximate="cubic")


def unknown_rounding(device: torch.device) -> None:
    torch.div(torch.zeros(3, device=device), 2, rounding_mode="up")


ERRORS = [
    overlapping,
    written_twice,
    shapes_that_do_not_broadcast,
    in_place_that_would_grow,
    in_place_that_would_change_kind,
    float_alpha_for_integers,
    difference_of_bools,
    bits_of_floats,
    negative_power_of_integers,
    unknown_approximation,
    unknown_rounding,
]


@pytest.mark.parametrize("function", ERRORS)
def test_error_is_of_the_type_that_the_cpu_raises(
    device: torch.device, function: Callable[[torch.device], None]
) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever the CPU raises is right
        function(torch.device("cpu"))
    with pytest.raises(expected.type):
        function(device)


def test_operands_on_two_devices_raise(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.zeros(3, device=device) + torch.zeros(3)


def test_error_names_kernel_and_operands(device: torch.device) -> None:
    with raises_in_a_kernel(RuntimeError, r"div_floor\(.*s64\[2\]"):
        (torch.ones(2, dtype=torch.int64, device=device) // torch.zeros(2, dtype=torch.int64, device=device)).cpu()
