"""Functions of JAX of numbers of 64 bits and more, which need jax_enable_x64."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax_complex import FUNCTIONS
from jax_functions import EDGES, Case

_UNSIGNED = np.array([0, 1, 2, 2**63 - 1, 2**63, 2**63 + 2, 2**64 - 1, 2**40, 7, 2**63], np.uint64)
_EDGES = np.concatenate([EDGES, -EDGES]).astype(np.float64)
_COMPLEX = np.linspace(-3, 3, 12).reshape(3, 4) + 1j * np.linspace(2, -2.5, 12).reshape(3, 4)

WIDE: dict[str, Case] = {
    "extrema-u64": (lambda x: (x.max(), x.min(), x.argmax(), x.argmin(), x.max(initial=7)), [_UNSIGNED]),
    "cumulative-extrema-u64": (lambda x: (lax.cummax(x), lax.cummin(x, reverse=True)), [_UNSIGNED]),
    "clamp-u64": (
        lambda x: (
            jnp.clip(x, 2, np.uint64(2**63)),
            jnp.maximum(x, 2**62),
            jnp.minimum(x, x[::-1]),
            lax.clamp(x[1], x, x[4]),
        ),
        [_UNSIGNED],
    ),
    "compare-u64": (lambda x: (x < x[::-1], x >= np.uint64(2**63)), [_UNSIGNED]),
    "divide-by-powers-u64": (
        lambda x: [(lax.div(x, np.uint64(p)), lax.rem(x, np.uint64(p))) for p in (1, 2, 2**40, 2**63)],
        [_UNSIGNED],
    ),
    "sort-u64": (lambda x: (jnp.sort(x), lax.sort((x % 2, x, -x), num_keys=2)), [_UNSIGNED]),
    "scatter-extrema-u64": (
        lambda x, i: (x.at[i].max(x[::-1]), x.at[i].min(np.uint64(2**63 + 1))),
        [_UNSIGNED, np.arange(10) % 4],
    ),
    "sort-f64": (lambda x, y: lax.sort((x, y), num_keys=2), [_EDGES, _EDGES[::-1].copy()]),
    "searchsorted-f64": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), [_EDGES, _EDGES]),
    "top_k-f64": (lambda x: lax.top_k(x, 7), [_EDGES]),
    "reduce_precision-f64": (
        lambda x: [lax.reduce_precision(x, e, m) for e, m in ((8, 23), (11, 52), (5, 10))],
        [_EDGES],
    ),
    "sort-c128": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)), [np.round(_COMPLEX)]),
    "sum-c128": (lambda x: (x.sum(0), x.mean(), jnp.cumsum(x, 1), x.sum(initial=1j)), [_COMPLEX]),
    "matmul-c128": (lambda x: x @ x.T, [_COMPLEX]),
    **{
        f"convolution-{np.dtype(dtype).name}": (
            lambda x, w: (
                lax.conv_general_dilated(x, w, (1, 2), ((1, 0), (2, 1)), lhs_dilation=(2, 1), feature_group_count=2),
                lax.conv_general_dilated(x[..., 0], w[..., 0], (1,), "SAME", feature_group_count=2),
            ),
            [
                np.arange(-96, 96).astype(dtype).reshape(2, 4, 4, 6),
                np.arange(-18, 18).astype(dtype).reshape(3, 2, 3, 2).repeat(2, 0),
            ],
        )
        for dtype in (np.float64, np.int8, np.int64, np.uint32, np.complex64, np.complex128)
    },
    "scatter-c128": (lambda x, i: (x.at[i].add(x), x.at[i].multiply(x)), [_COMPLEX, np.array([1, 1, 2])]),
    "power-c128": (lambda x: (x**1.5, x ** (1 - 2j)), [_COMPLEX]),
    **{f"{function.__name__}-c128": (function, [_COMPLEX]) for function in FUNCTIONS},
}
