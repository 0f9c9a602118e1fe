"""Arguments that JAX programs donate: where results lie, what they are, and what memory that saves."""

from __future__ import annotations

import json
from functools import cache

import pytest

from pjrt.clients import output_of, require

DRIVERS = ["host", "host:remote,async,guarded,devices=2,kernels=none"]

PROGRAM = """
import json
import jax, jax.numpy as jnp, numpy as np
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev")
from jax import lax

def adam(m, v, p, g):
    m, v = m * 0.9 + g * 0.1, v * 0.99 + g * g * 0.01
    return m, v, p - m / (jnp.sqrt(v) + 1e-6)

# A function, how many arguments it has, which it donates.
cases = {
    "pointwise": (lambda x: x * 2 + 1, 1, (0,)),
    "the argument": (lambda x, y: (x, y + 1), 2, (0, 1)),
    "swapped": (lambda x, y: (y, x), 2, (0, 1)),
    "both from both": (lambda x, y: (y * 2, x + y), 2, (0, 1)),
    "an element": (lambda x: x.at[3, 2].set(7.0), 1, (0,)),
    "a loop": (lambda x: lax.fori_loop(0, 5, lambda i, v: v * 1.5 + i, x), 1, (0,)),
    "a product": (lambda x: x @ x, 1, (0,)),
    "other elements": (lambda x: x.T + x, 1, (0,)),
    "of rows": (lambda x: x / x.sum(1, keepdims=True), 1, (0,)),
    "an optimizer": (adam, 4, (0, 1, 2)),
    "returned twice": (lambda x: (x, x), 1, (0,)),
    "another type": (lambda x: x.astype(jnp.int32), 1, (0,)),
    "nothing in it": (lambda x: x[:0] + 1, 1, (0,)),
}
random = np.random.default_rng(0)
given = [random.uniform(1, 2, (48, 48)).astype(np.float32) for _ in range(4)]
results = {}
for name, (function, count, donated) in cases.items():
    expected = jax.tree.leaves(jax.jit(function)(*[jnp.array(x) for x in given[:count]]))
    arguments = [jnp.array(x) for x in given[:count]]
    pointers = [x.unsafe_buffer_pointer() for x in arguments]
    actual = jax.tree.leaves(jax.jit(function, donate_argnums=donated)(*arguments))
    results[name] = {
        "equal": all(np.array_equal(a, b) for a, b in zip(actual, expected, strict=True)),
        "places": [pointers.index(p) if (p := x.unsafe_buffer_pointer()) in pointers else None for x in actual],
        "gone": [i for i, x in enumerate(arguments) if x.is_deleted()],
    }

# Memory in use after an update of a large array.
for name, donated in {"bytes kept": (), "bytes donated": (0,)}.items():
    device = jax.devices()[0]
    update = jax.jit(lambda x: x * 2, donate_argnums=donated)
    x = jax.block_until_ready(jnp.ones(FLOATS))
    y = jax.block_until_ready(update(x))
    results[name] = device.memory_stats()["bytes_in_use"]
    del x, y
print(json.dumps(results))
"""

FLOATS = 1 << 20


@cache
def results(driver: str) -> dict[str, dict[str, object]]:
    require("jax", "jax==0.10.2")
    code = PROGRAM.replace("FLOATS", str(FLOATS))
    loaded = json.loads(output_of(code, driver).splitlines()[-1])
    assert isinstance(loaded, dict)
    return loaded


#: For each result of a case: the argument whose memory holds it; None if it has memory of its own.
PLACES: dict[str, list[int | None]] = {
    "pointwise": [0],
    "the argument": [0, 1],
    "swapped": [None, 1],
    "both from both": [None, 1],
    "an element": [0],
    "a loop": [0],
    "a product": [None],
    "other elements": [None],
    "of rows": [0],
    "an optimizer": [0, 1, 2],
    "returned twice": [0, None],
    "another type": [None],
    "nothing in it": [None],
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", PLACES)
def test_results_are_as_without_donation_and_lie_in_what_is_donated(name: str, driver: str) -> None:
    found = results(driver)[name]
    assert found["equal"]
    assert found["places"] == PLACES[name]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", ["pointwise", "other elements", "another type"])
def test_what_is_donated_is_gone(name: str, driver: str) -> None:
    assert results(driver)[name]["gone"] == [0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_update_in_donated_memory_needs_no_other(driver: str) -> None:
    kept, donated = results(driver)["bytes kept"], results(driver)["bytes donated"]
    assert isinstance(kept, int) and isinstance(donated, int)
    assert kept - donated == FLOATS * 4
