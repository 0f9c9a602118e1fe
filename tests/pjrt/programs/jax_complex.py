"""Functions of complex numbers of JAX, on both sides of each cut and on the axes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax_functions import Case

FUNCTIONS = [
    jnp.abs, jnp.exp, jnp.expm1, jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.sin, jnp.cos, jnp.tan, jnp.sinh,
    jnp.cosh, jnp.tanh, jnp.arcsin, jnp.arctan, jnp.sign, jnp.angle, jnp.square, jnp.reciprocal, lax.logistic,
    jnp.conj, jnp.isnan, jnp.isfinite, jnp.negative,
]  # fmt: skip

_PARTS = np.float32([-20, -1.5, -1, -0.5, -1e-3, 0, 1e-3, 0.7, 1, 3, 20])
_NUMBERS = (_PARTS[:, None] + 1j * _PARTS).astype(np.complex64)
_LARGE = np.complex64([1e30 + 1e30j, -1e30, 1e-30 - 1e-30j, 3e38j, 1e20 + 1e-20j])


def _functions() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for function in FUNCTIONS:
        name = function.__name__
        defined = _NUMBERS[_NUMBERS != 0] if name in ("rsqrt", "log", "reciprocal") else _NUMBERS.ravel()
        cases[f"complex-{name}"] = (
            lambda x, y, z, f=function: (f(x), f(y.T[1:, ::2]), f(z), f(x[0])),
            [defined, _NUMBERS[_NUMBERS.imag != 0][:110].reshape(10, 11), np.zeros((2, 0), np.complex64)],
        )
    for function in (jnp.abs, jnp.sqrt, jnp.sign, jnp.log):
        cases[f"complex-{function.__name__}-large"] = (function, [_LARGE])
    return cases


COMPLEX: dict[str, Case] = {
    **_functions(),
    "complex-abs-nan": (jnp.abs, [np.complex64([complex(np.nan, 1), complex(1, np.nan), complex(np.inf, 1), -np.inf])]),
    "complex-power": (
        jnp.power,
        [_NUMBERS[_NUMBERS != 0][:110], np.resize(np.complex64([2, 0.5, 1j, -1.5 - 0.25j]), 110)],
    ),
    "complex-power-of-0": (jnp.power, [np.zeros(4, np.complex64), np.complex64([0, 1, 2, 0.5])]),
    "complex-power-of-a-number": (lambda x: (x**1.5, 2**x, x**3, x**-2), [_NUMBERS[_NUMBERS != 0]]),
    "complex-division": (lambda x: x / (x[::-1] + 0.3j), [_NUMBERS]),
    "complex-equal": (lambda x: (x == x.conj(), x != x.conj()), [_NUMBERS]),
}
