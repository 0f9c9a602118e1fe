"""Inductor's operators in the kernels' language.

Each gives an expression whose type is the one that Inductor's propagation of dtypes says, and converts its operands to
the type that it computes in. Functions are the language's (csrc/kernels/language): ``exp_f32``, ``floordiv_i64``. An
operator that is missing here raises; backend.py leaves it to the device's own operators beforehand.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import OpOverrides
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler, promote_types
from torch._inductor.utils import IndentedBuffer, get_bounds_index_expr, upcast_compute_type
from torch._inductor.virtualized import V

from torch_mydev.compile.kernels.types import (
    HALVES,
    converted,
    dtype_of,
    literal,
    memory_type,
    unwrap,
    value_type,
)

Expression = str

#: Functions of floating-point numbers, with as many operands.
FLOAT_FUNCTIONS = {
    **dict.fromkeys(
        [
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "reciprocal"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("erf", "erfc", "lgamma"),
        ],
        1,
    ),
    **dict.fromkeys(["atan2", "hypot", "copysign", "nextafter"], 2),
    "fma": 3,
}
#: Functions that are the identity for integers.
ROUNDINGS = ("floor", "ceil", "trunc", "round")
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
BITWISE = {"and": "&", "or": "|", "xor": "^"}
LOGICAL = {"and": "&", "or": "|", "xor": "!="}
#: Functions of two operands of the result's dtype, and their names in the language.
BINARY_FUNCTIONS = {
    "maximum": "max",
    "minimum": "min",
    "pow": "pow",
    **dict.fromkeys(("lshift", "bitwise_left_shift"), "shift_left"),
    **dict.fromkeys(("rshift", "bitwise_right_shift"), "shift_right"),
}
DIVISIONS = {"floordiv": "floordiv", "truncdiv": "truncdiv", "remainder": "remainder", "fmod": "fmod", "mod": "fmod"}
_UNSIGNED = {"i32": "u32", "i64": "u64"}  # in which arithmetic wraps
_ERROR_FUNCTION = re.compile(r"erf_(f32|f64)\((\w+)\)")


def result_dtype(name: str, *operands: Any) -> torch.dtype:
    """The dtype that Inductor gives to the result."""
    rule: Callable[..., torch.dtype] = getattr(DtypePropagationOpsHandler(), name)
    return upcast_compute_type(rule(*map(unwrap, operands)))


def operand_dtype(*operands: Any) -> torch.dtype:
    """The dtype in which operands are compared."""
    return upcast_compute_type(promote_types([unwrap(operand) for operand in operands]))


def arithmetic(operation: str, a: str, b: str, dtype: torch.dtype) -> Expression:
    """A sum, a difference or a product of two values of a dtype; integers wrap round."""
    kind = value_type(dtype)
    if dtype.is_floating_point:
        return f"({a} {operation} {b})"
    unsigned = _UNSIGNED.get(kind, "u32" if kind != "u64" else kind)
    return f"(({kind})(({unsigned})({a}) {operation} ({unsigned})({b})))"


def _check_divisor(divisor: Any, dtype: torch.dtype) -> None:
    """Integers are divided by constants alone: eager mode raises for 0, which code can only do without an answer."""
    if dtype.is_floating_point:
        return
    bounds = getattr(unwrap(divisor), "bounds", None)
    known = (bounds.lower > 0 or bounds.upper < 0) if bounds is not None else unwrap(divisor) != 0
    if not known:
        raise NotImplementedError("generated kernels divide integers only by what is known not to be zero")


class Operators(OpOverrides):
    """The operators, under the names by which Inductor calls them."""

    @staticmethod
    def constant(value: Any, dtype: torch.dtype) -> Expression:
        return literal(value, dtype)

    @staticmethod
    def to_dtype(
        x: Any, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> Expression:
        text = converted(x, upcast_compute_type(dtype))
        if dtype in HALVES and not use_compute_types:
            return f"{memory_type(dtype)}_to_f32(f32_to_{memory_type(dtype)}({text}))"
        return text

    @staticmethod
    def to_dtype_bitcast(x: Any, dtype: torch.dtype, src_dtype: torch.dtype) -> Expression:
        source, target = memory_type(src_dtype), memory_type(dtype)
        text = converted(x, upcast_compute_type(src_dtype))
        if src_dtype in HALVES:
            text = f"f32_to_{source}({text})"
        bits = f"bits_of_{source}({text})" if src_dtype.is_floating_point else text
        return f"{target}_of_bits({bits})" if dtype.is_floating_point else f"(({target})({bits}))"

    @staticmethod
    def index_expr(expr: sympy.Expr, dtype: torch.dtype) -> Any:
        kernel = V.kernel
        index = kernel.index_to_str(kernel.prepare_indexing(expr))
        bounds = get_bounds_index_expr(expr)
        result = DtypePropagationOpsHandler.index_expr(expr, dtype)
        return kernel.cse.generate(kernel.compute, f"(({value_type(result)})({index}))", bounds=bounds, dtype=result)

    @staticmethod
    def value_expr(expr: sympy.Expr, dtype: torch.dtype) -> Any:
        kernel = V.kernel
        index = kernel.index_to_str(kernel.prepare_indexing(expr))
        bounds = get_bounds_index_expr(expr)
        return kernel.cse.generate(kernel.compute, f"(({value_type(dtype)})({index}))", bounds=bounds, dtype=dtype)

    @staticmethod
    def masked(mask: Any, body: Callable[[], Any], other: Any) -> Any:
        kernel = V.kernel
        scope = IndentedBuffer()
        with kernel.swap_buffers(scope), scope.indent():
            # The same body gives the same text; names differ from those around it, at each depth.
            kernel.cse.iter_buffer_ids = itertools.count()
            kernel.cse.name_prefix += "_scoped"
            result = unwrap(body())
        dtype = dtype_of(result)
        fallback = converted(other, dtype)
        key = f"{mask}:{scope.getvalue()}:{result}:{fallback}"
        variable = kernel.cse.try_get(key)
        if variable is None:
            variable = kernel.cse.newvar(dtype=dtype, shape=getattr(result, "shape", None))
            kernel.cse.put(key, variable)
            kernel.cse.expressions[str(variable)] = key
            kernel.compute.writeline(f"{value_type(dtype)} {variable} = {fallback};")
            kernel.compute.writeline(f"if ({mask}) {{")
            with kernel.compute.indent():
                kernel.compute.splice(scope)
                kernel.compute.writeline(f"{variable} = {converted(result, dtype)};")
            kernel.compute.writeline("}")
        return variable

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Expression:
        dtype = result_dtype("where", condition, x, y)
        return f"({converted(condition, torch.bool)} ? {converted(x, dtype)} : {converted(y, dtype)})"

    # --- arithmetic -----------------------------------------------------------------------------------------------

    @staticmethod
    def neg(x: Any) -> Expression:
        dtype = result_dtype("neg", x)
        value = converted(x, dtype)
        return f"(-{value})" if dtype.is_floating_point else arithmetic("-", "0", value, dtype)

    @staticmethod
    def abs(x: Any) -> Expression:
        dtype = result_dtype("abs", x)
        value = converted(x, dtype)
        if dtype.is_floating_point:
            return f"abs_{value_type(dtype)}({value})"
        return f"({value} < 0 ? {arithmetic('-', '0', value, dtype)} : {value})"

    @staticmethod
    def sign(x: Any) -> Expression:
        dtype = result_dtype("sign", x)
        value = converted(x, dtype)
        return f"(({value_type(dtype)})(({value} > 0) - ({value} < 0)))"

    @staticmethod
    def relu(x: Any) -> Expression:
        dtype = result_dtype("relu", x)
        value = converted(x, dtype)
        # This takes fewer instructions than a maximum, either operand of which may be NaN.
        if dtype.is_floating_point:
            return f"({value} < 0 ? 0 : {value})"
        return f"max_{value_type(dtype)}({value}, {literal(0, dtype)})"

    @staticmethod
    def truediv(a: Any, b: Any) -> Expression:
        dtype = result_dtype("truediv", a, b)
        if not dtype.is_floating_point:
            return f"(({converted(a, torch.float32)} / {converted(b, torch.float32)}))"
        return f"({converted(a, dtype)} / {converted(b, dtype)})"

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Expression:
        dtype = result_dtype("int_truediv", a, b)
        return f"({converted(a, dtype)} / {converted(b, dtype)})"

    @staticmethod
    def frexp(x: Any) -> Any:
        raise NotImplementedError("generated kernels have no frexp")

    @staticmethod
    def ldexp(x: Any, n: Any) -> Expression:
        dtype = dtype_of(x)
        return f"ldexp_{value_type(dtype)}({converted(x, dtype)}, {converted(n, torch.int32)})"

    # --- of truth values and bits ---------------------------------------------------------------------------------

    @staticmethod
    def isnan(x: Any) -> Expression:
        return f"({x} != {x})"

    @staticmethod
    def isinf(x: Any) -> Expression:
        dtype = dtype_of(x)
        return f"(abs_{value_type(dtype)}({x}) == INFINITY_{value_type(dtype)})" if dtype.is_floating_point else "false"

    @staticmethod
    def signbit(x: Any) -> Expression:
        dtype = dtype_of(x)
        return f"signbit_{value_type(dtype)}({x})" if dtype.is_floating_point else f"({x} < 0)"

    @staticmethod
    def logical_not(a: Any) -> Expression:
        return f"(!{converted(a, torch.bool)})"

    @staticmethod
    def bitwise_not(x: Any) -> Expression:
        dtype = dtype_of(x)
        return f"(!{x})" if dtype is torch.bool else f"(({value_type(dtype)})(~{x}))"

    # --- random numbers -------------------------------------------------------------------------------------------

    @staticmethod
    def rand(seed: Any, offset: Any) -> Expression:
        return f"rand_f32({converted(seed, torch.int64)}, {converted(offset, torch.int64)})"

    @staticmethod
    def randn(seed: Any, offset: Any) -> Expression:
        return f"randn_f32({converted(seed, torch.int64)}, {converted(offset, torch.int64)})"

    @staticmethod
    def randint64(seed: Any, offset: Any, low: Any, high: Any) -> Expression:
        operands = ", ".join(converted(operand, torch.int64) for operand in (seed, offset, low, high))
        return f"randint_i64({operands})"


# --- rows that differ in a name ---------------------------------------------------------------------------------------


def _float_function(name: str) -> Callable[..., Expression]:
    def function(*operands: Any) -> Expression:
        dtype = result_dtype(name, *operands)
        if not dtype.is_floating_point:
            dtype = torch.float32
        return f"{name}_{value_type(dtype)}({', '.join(converted(operand, dtype) for operand in operands)})"

    return function


def _binary_function(name: str, function: str) -> Callable[[Any, Any], Expression]:
    def call(a: Any, b: Any) -> Expression:
        dtype = result_dtype(name, a, b)
        if name in DIVISIONS:
            _check_divisor(b, dtype)
        return f"{function}_{value_type(dtype)}({converted(a, dtype)}, {converted(b, dtype)})"

    return call


def _rounding(name: str) -> Callable[[Any], Expression]:
    def function(x: Any) -> Expression:
        dtype = result_dtype(name, x)
        value = converted(x, dtype)
        return f"{name}_{value_type(dtype)}({value})" if dtype.is_floating_point else value

    return function


def _comparison(sign: str) -> Callable[[Any, Any], Expression]:
    def function(a: Any, b: Any) -> Expression:
        dtype = operand_dtype(a, b)
        return f"({converted(a, dtype)} {sign} {converted(b, dtype)})"

    return function


def _arithmetic(name: str, sign: str) -> Callable[[Any, Any], Expression]:
    def function(a: Any, b: Any) -> Expression:
        dtype = result_dtype(name, a, b)
        return arithmetic(sign, converted(a, dtype), converted(b, dtype), dtype)

    return function


def _sum(a: Any, b: Any) -> Expression:
    # 1 + erf(x), as in GELU, is quicker to compute than the error function itself.
    for x, other in ((a, b), (b, a)):
        match = _ERROR_FUNCTION.fullmatch(_expression(x))
        if match and _expression(other) == literal(1, dtype_of(x)):
            return f"one_plus_erf_{match[1]}({match[2]})"
    return _arithmetic("add", ARITHMETIC["add"])(a, b)


def _expression(x: Any) -> Expression:
    """The expression that a variable stands for; anything else as it is."""
    text = str(unwrap(x))
    expressions: dict[str, str] = V.kernel.cse.expressions
    return expressions.get(text, text)


def _square(x: Any) -> Expression:
    dtype = result_dtype("square", x)
    value = converted(x, dtype)
    return arithmetic("*", value, value, dtype)


def _logical(sign: str) -> Callable[[Any, Any], Expression]:
    return lambda a, b: f"({converted(a, torch.bool)} {sign} {converted(b, torch.bool)})"


def _bitwise(sign: str) -> Callable[[Any, Any], Expression]:
    def function(a: Any, b: Any) -> Expression:
        dtype = operand_dtype(a, b)
        return f"(({value_type(dtype)})({converted(a, dtype)} {sign} {converted(b, dtype)}))"

    return function


def _fill() -> None:
    rows: dict[str, Callable[..., Expression]] = {name: _float_function(name) for name in FLOAT_FUNCTIONS}
    rows |= {name: _rounding(name) for name in ROUNDINGS}
    rows |= {name: _comparison(sign) for name, sign in COMPARISONS.items()}
    rows |= {name: _arithmetic(name, sign) for name, sign in ARITHMETIC.items()}
    rows |= {name: _binary_function(name, function) for name, function in (BINARY_FUNCTIONS | DIVISIONS).items()}
    rows |= {f"logical_{name}": _logical(sign) for name, sign in LOGICAL.items()}
    rows["div_rn"] = Operators.truediv
    rows["add"] = _sum
    rows["mul_rn"] = rows["mul"]
    rows["square"] = _square
    for name, sign in BITWISE.items():
        rows[f"bitwise_{name}"] = _bitwise(sign)
        rows["xor" if name == "xor" else f"{name}_"] = _bitwise(sign)
    for name, function in rows.items():
        setattr(Operators, name, staticmethod(function))


_fill()
