"""Loops of JAX that read and write parts of tensors as they go: cases as jax_functions.py has them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax_functions import Case

_BYTES = np.arange(12, dtype=np.uint8).reshape(4, 3)
_ORDER = np.array([3, 0, 2, 1, 0], np.int32)


def _cumulated(x: jax.Array) -> Any:
    def step(sum_: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return sum_ + row, sum_ * row

    return lax.scan(step, jnp.zeros(x.shape[1:]), x)


def _of_two(x: jax.Array, y: jax.Array) -> Any:
    def step(carry: jax.Array, rows: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        a, b = rows
        return carry * 0.5 + a, (carry + b, a - b)

    return lax.scan(step, jnp.ones(x.shape[1:]), (x, y))


def _reversed(x: jax.Array) -> Any:
    return lax.scan(lambda c, row: (c * 0.9 + row, c.sum()), jnp.ones(x.shape[1:]), x, reverse=True)


def _nested(x: jax.Array) -> Any:
    def outer(carry: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry, inner = lax.scan(lambda c, row: (c + row, c * row), carry, rows)
        return carry, inner.sum(0)

    return lax.scan(outer, jnp.zeros(x.shape[-1]), x)


def _before(x: jax.Array) -> Any:
    return lax.fori_loop(0, len(x), lambda i, a: a.at[i].set(a[i - 1] * 0.5 + 1), x)


def _fibonacci(x: jax.Array) -> Any:
    return lax.fori_loop(2, len(x), lambda i, a: a.at[i].set(a[i - 1] + a[i - 2]), x)


def _after(x: jax.Array) -> Any:
    return lax.fori_loop(0, len(x), lambda i, a: a.at[i].set(a[(i + 1) % len(x)]), x)


def _beyond(x: jax.Array) -> Any:
    """The last iterations write behind the end, which has no effect; a slice there is the last one."""
    return lax.fori_loop(0, len(x) + 3, lambda i, a: a.at[i].set(2 * lax.dynamic_index_in_dim(a, i, keepdims=False)), x)


def _clamped_update(x: jax.Array) -> Any:
    return lax.fori_loop(0, 6, lambda i, a: lax.dynamic_update_slice(a, a[:2] + 1, (i,)), x)


def _swap(x: jax.Array) -> Any:
    def step(i: int, a: jax.Array) -> jax.Array:
        first, last = a[i], a[len(x) - 1 - i]
        return a.at[i].set(last).at[len(x) - 1 - i].set(first)

    return lax.fori_loop(0, len(x) // 2, step, x)


def _read_then_written(x: jax.Array) -> Any:
    """An iteration that reads where it writes later gets the older value."""

    def step(i: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        a, sum_ = state
        old = a[i]
        return a.at[i].set(old * 2), sum_ + old

    return lax.fori_loop(0, len(x), step, (x, jnp.zeros(())))


def _carried_part(x: jax.Array) -> Any:
    """Each iteration reads a part, which the next iteration gets."""

    def step(i: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        a, row = state
        return a.at[i].set(row), a[i]

    return lax.fori_loop(0, len(x), step, (x, jnp.zeros(x.shape[1:])))


def _whole_too(x: jax.Array) -> Any:
    return lax.fori_loop(0, len(x), lambda i, a: a.at[i].set(a.sum(0) * 0.1), x)


def _two_writes(x: jax.Array) -> Any:
    return lax.fori_loop(0, len(x) - 1, lambda i, a: a.at[i].set(1.0).at[i + 1].set(a[i] + 2), x)


def _windows(x: jax.Array) -> Any:
    return lax.fori_loop(
        0, len(x) - 3, lambda i, a: lax.dynamic_update_slice(a, lax.dynamic_slice(a, (i,), (3,)) * 0.5 + 1, (i + 1,)), x
    )


def _steps_of_two(x: jax.Array) -> Any:
    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        i, a = state
        return i + 2, a.at[i].set(a[i + 1])

    return lax.while_loop(lambda state: state[0] < len(x) - 1, step, (jnp.int32(0), x))[1]


def _columns(x: jax.Array) -> Any:
    return lax.fori_loop(0, x.shape[1], lambda i, a: a.at[:, i].set(a[:, i] + i), x)


def _both_dimensions(x: jax.Array) -> Any:
    return lax.fori_loop(0, min(x.shape), lambda i, a: a.at[i, i].add(10.0), x)


def _counter_in_values(x: jax.Array) -> Any:
    return lax.scan(lambda c, i: (c + x[i] * i, i * 2), jnp.zeros(x.shape[1:]), jnp.arange(len(x)))


def _two_counters(x: jax.Array) -> Any:
    def step(_: int, state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        i, j, sum_ = state
        return i + 1, j + 2, sum_ + x[i] * x[j]

    zero = jnp.int32(0)
    return lax.fori_loop(0, len(x) // 2, step, (zero, zero, jnp.zeros(x.shape[1:])))[2]


def _permuted(x: jax.Array, order: jax.Array) -> Any:
    return lax.scan(lambda c, i: (c * 0.5 + x[i], c), jnp.zeros(x.shape[1:]), order)[1]


def _branches(x: jax.Array) -> Any:
    def step(i: int, a: jax.Array) -> jax.Array:
        return lax.cond(i % 2 == 0, lambda: a.at[i].set(-a[i]), lambda: a.at[i].add(1.0))

    return lax.fori_loop(0, len(x), step, x)


def _updates_what_is_outside(x: jax.Array) -> Any:
    return lax.fori_loop(0, len(x), lambda i, c: c + x.at[i].set(7.0), jnp.zeros_like(x))


def _known_at_run_time(x: jax.Array, limit: jax.Array) -> Any:
    return lax.fori_loop(0, limit, lambda i, a: a.at[i].set(a[i] + i), x)


def _sum_of_scan(x: jax.Array) -> Any:
    return jnp.sin(_cumulated(x)[1]).sum() + _nested(x[None])[1].sum()


def _walk(x: jax.Array) -> Any:
    """A spring and its way, until it is almost at rest."""

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        i, place, speed, way = state
        speed = 0.95 * speed - 0.1 * place
        place = place + 0.1 * speed
        return i + 1, place, speed, way.at[i].set(place[0])

    start = (jnp.int32(0), x, jnp.zeros_like(x), jnp.zeros(300))
    _, place, _, way = lax.while_loop(lambda s: (s[0] < 300) & (jnp.abs(s[1]).max() > 0.1), step, start)
    return place, way


LOOPS: dict[str, Case] = {
    "scan": (_cumulated, [(5, 4)]),
    "scan-of-scalars": (_cumulated, [(7,)]),
    "scan-of-matrices": (_cumulated, [(3, 4, 5)]),
    "scan-of-large-rows": (_cumulated, [(3, 40000)]),
    "scan-of-one": (_cumulated, [(1, 4)]),
    "scan-of-none": (_cumulated, [(0, 4)]),
    "scan-of-empty-rows": (_cumulated, [(3, 0)]),
    "scan-transposed": (lambda x: _cumulated(x.T), [(5, 4)]),
    "scan-broadcast": (lambda x: _cumulated(jnp.broadcast_to(x, (3, 4))), [(4,)]),
    "scan-constant": (lambda x: _of_two(x, jnp.ones((5, 4))), [(5, 4)]),
    "scan-of-two": (_of_two, [(5, 4), (5, 4)]),
    "scan-reversed": (_reversed, [(5, 4)]),
    "scan-nested": (_nested, [(3, 4, 5)]),
    "scan-unrolled": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x, unroll=3), [(8, 4)]),
    "scan-of-bytes": (lambda x: lax.scan(lambda c, r: (c + r, c ^ r), x[0], x), [_BYTES]),
    "scan-grad": (jax.grad(_sum_of_scan), [(5, 4)]),
    "scan-vmap": (jax.vmap(_cumulated), [(2, 5, 4)]),
    "scan-vmap-columns": (jax.vmap(_cumulated, in_axes=1, out_axes=1), [(5, 2, 4)]),
    "scan-jvp": (lambda x, t: jax.jvp(_sum_of_scan, (x,), (t,)), [(5, 4), (5, 4)]),
    "scan-remat": (jax.grad(jax.checkpoint(_sum_of_scan)), [(5, 4)]),
    "scan-permuted": (_permuted, [(4, 3), _ORDER]),
    "scan-counter": (_counter_in_values, [(4, 3)]),
    "associative-scan": (lambda x: lax.associative_scan(jnp.add, x), [(9, 4)]),
    "map": (lambda x: lax.map(lambda row: jnp.sort(row)[::-1], x), [(5, 4)]),
    "map-batched": (lambda x: lax.map(lambda row: row * 2, x, batch_size=2), [(5, 4)]),
    "before": (_before, [(9,)]),
    "before-of-one": (_before, [(1,)]),
    "fibonacci": (_fibonacci, [(9,)]),
    "fibonacci-rows": (_fibonacci, [(9, 3)]),
    "after": (_after, [(6,)]),
    "beyond": (_beyond, [(6,)]),
    "clamped-update": (_clamped_update, [(5,)]),
    "swap": (_swap, [(6, 2)]),
    "read-then-written": (_read_then_written, [(6,)]),
    "carried-part": (_carried_part, [(6, 2)]),
    "whole-too": (_whole_too, [(4, 2)]),
    "two-writes": (_two_writes, [(6,)]),
    "windows": (_windows, [(9,)]),
    "steps-of-two": (_steps_of_two, [(9,)]),
    "columns": (_columns, [(4, 3)]),
    "diagonal": (_both_dimensions, [(4, 3)]),
    "two-counters": (_two_counters, [(8, 3)]),
    "branches": (_branches, [(5,)]),
    "outside": (_updates_what_is_outside, [(5,)]),
    "limit": (_known_at_run_time, [(5,), np.int32(3)]),
    "walk": (_walk, [(3,)]),
    "sums-of-products": (lambda x: lax.fori_loop(0, 3, lambda i, a: a @ x * 0.5 + x[i], x), [(4, 4)]),
}  # fmt: skip
