"""Contracts' expressions, computed by JAX's operations: for derivatives of kernels without a gradient kernel.

The expression is a tree, as ``pjrt_mydev.kernel_info(name)["contract"]["computes"]`` has it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": jnp.logical_and,
    "or": jnp.logical_or,
    "not": jnp.logical_not,
    "where": lambda condition, a, b: jnp.where(condition != 0, a, b),
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh,
    "atanh": jnp.arctanh,
    "atan2": jnp.arctan2,
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "pow": jnp.power,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "trunc_div": lambda a, b: jnp.trunc(a / b),
    "floor_div": jnp.floor_divide,
}
_SAME_NAME = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt"),
    *("cbrt", "floor", "ceil", "round", "trunc", "abs", "sign", "isnan", "isinf", "fmod", "remainder"),
}


def compute(contract: Mapping[str, Any], values: Mapping[str, Any], result: str, dtype: Any) -> Any:
    """The result of that name, of this dtype, by operands and attributes. Half precision is computed in f32.

    Raises NotImplementedError for a function that has no derivative.
    """
    trees = contract["computes"]
    wide = {name: _widened(value) for name, value in values.items()}
    return jnp.asarray(_value(trees.get(result, trees.get("")), wide, contract["kernel"])).astype(dtype)


def _widened(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return value
    return value.astype(jnp.float32) if value.dtype in (jnp.float16, jnp.bfloat16) else value


def _value(tree: Any, values: Mapping[str, Any], kernel: str) -> Any:
    if not isinstance(tree, Mapping):
        return float(tree)  # "inf" and "nan" are texts
    if "name" in tree:
        return values[tree["name"]]
    name = tree["function"]
    function = getattr(jnp, name) if name in _SAME_NAME else _FUNCTIONS.get(name)
    if function is None:
        raise NotImplementedError(
            f"kernel '{kernel}' has no derivative: '{name}' in its expression has none; give its record a gradient"
        )
    found = function(*(_value(argument, values, kernel) for argument in tree["arguments"]))
    return found.astype(jnp.float32) if getattr(found, "dtype", None) == jnp.bool_ else found
