"""Orders of JAX: NaN, zeros of either sign, equal elements, several keys, the first few."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax_functions import EDGES, UNSIGNED, Case


def _orders() -> dict[str, Case]:
    equal = np.array([3, 1, 2, 3, 1, 2, 3, 0, 3], np.int32)
    edges = np.concatenate([EDGES, -EDGES])
    cases: dict[str, Case] = {
        "argsort-equal": (jnp.argsort, [equal]),
        "argsort-edges": (jnp.argsort, [edges]),
        "argsort-descending": (lambda x: jnp.argsort(x, descending=True), [equal]),
        "sort-u32": (jnp.sort, [UNSIGNED[::-1].copy()]),
        "sort-bool": (jnp.sort, [equal > 1]),
        "sort-f64-bits": (lambda x: lax.top_k(x, 22), [edges]),
        "top_k-equal": (lambda x: lax.top_k(x, 4), [equal]),
        "top_k-u32": (lambda x: lax.top_k(x, 4), [UNSIGNED]),
        "top_k-bf16": (lambda x: lax.top_k(x, 5), [edges.astype(jnp.bfloat16)]),
        "top_k-all": (lambda x: lax.top_k(x, 9), [(4, 9)]),
        "sort-three": (lambda x, y, z: lax.sort((x, y, z), dimension=0), [equal, equal[::-1].copy(), (9,)]),
        "sort-middle": (lambda x: jnp.sort(x, axis=1), [(3, 5, 4)]),
        "sort-complex": (jnp.sort, [equal.astype(np.complex64)]),
        "sort-nothing": (jnp.sort, [(3, 0)]),
        "sort-keys-edges": (lambda x, y: lax.sort((x, y, -x), num_keys=3), [np.repeat(edges, 2), np.tile(edges, 2)]),
        "sort-keys-types": (
            lambda a, b, c, d: lax.sort((a, b, c, d), dimension=0, num_keys=3),
            [
                (equal > 1)[:, None],
                equal.astype(np.uint32)[:, None] << 30,
                equal[::-1, None].astype(np.float16),
                (9, 1),
            ],
        ),
        "sort-keys-middle": (lambda x: lax.sort((jnp.round(x), x.T.T, x), dimension=1, num_keys=2), [(3, 40, 4)]),
        "sort-keys-first-few": (
            lambda x, y: [r[:4] for r in lax.sort((x, y), num_keys=2)],
            [equal, equal[::-1].copy()],
        ),
        "sort-keys-nothing": (lambda x: lax.sort((x, x), num_keys=2), [(3, 0)]),
        "lexsort": (lambda x, y: jnp.lexsort((x, y)), [(300,), np.arange(300) % 7]),
        "sort-complex-edges": (
            lambda x, y: lax.sort((lax.complex(x, y), y), num_keys=2),
            [np.repeat(edges, 22), np.tile(edges, 22)],
        ),
        "argsort-complex": (jnp.argsort, [equal - 1j * equal[::-1]]),
        "unique-rows": (lambda x: jnp.unique(x, axis=0, size=9), [np.stack([equal, equal % 2], 1)]),
        "argmax-equal": (jnp.argmax, [equal]),
        "argmin-equal": (jnp.argmin, [equal]),
        "argmax-edges": (jnp.argmax, [edges]),
        "argmin-edges": (lambda x: jnp.argmin(x.reshape(2, 11), axis=1), [edges]),
        "argmax-infinite": (jnp.argmax, [np.full(4, -np.inf, np.float32)]),
        "argmax-bool": (jnp.argmax, [equal > 2]),
        "argmax-u32": (jnp.argmax, [UNSIGNED]),
        "searchsorted-edges": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), [edges, edges]),
        "searchsorted-f16": (
            lambda x, y: jnp.searchsorted(jnp.sort(x), y, side="right"),
            [edges.astype(np.float16), edges.astype(np.float16)],
        ),
        "searchsorted-bf16": (
            lambda x, y: jnp.searchsorted(jnp.sort(x), y),
            [edges.astype(jnp.bfloat16), edges.astype(jnp.bfloat16)],
        ),
        "searchsorted-right": (lambda x, y: jnp.searchsorted(jnp.sort(x), y, side="right"), [edges, edges]),
        "searchsorted-compared": (
            lambda x, y: jnp.searchsorted(jnp.sort(x), y, method="compare_all"),
            [edges, edges],
        ),
        "interp": (lambda x, y, z: jnp.interp(x, jnp.sort(y), z), [(9,), (5,), (5,)]),
        "lexsort-of-one": (lambda x: jnp.lexsort((x,)), [edges]),
        "nanargmax": (jnp.nanargmax, [EDGES]),
    }
    return cases


ORDERS = _orders()
