"""Random bits of JAX on the device and on JAX's CPU, in one process: prints what differs, in any bit, as JSON.

python tests/pjrt/jax_random.py [--original]         with counters that are not those of jax_threefry_partitionable
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

import pjrt_mydev

Function = Callable[..., Any]
Case = tuple[Function, list[Any]]

KEY = np.array([0x12345678, 0x9ABCDEF0], np.uint32)
KEYS = np.arange(10, dtype=np.uint32).reshape(5, 2)
SIZES = [(), (0,), (1,), (2,), (3,), (8,), (1023,), (1024,), (3, 0, 2), (5, 7), (4, 3, 2), (2**20,), (2**20 + 1,)]
ALGORITHMS = ["RNG_THREE_FRY", "RNG_PHILOX", "RNG_DEFAULT"]


def bits(shape: tuple[int, ...], dtype: str) -> Function:
    return lambda key: jax.random.bits(key, shape, dtype)


def steps(key: Any) -> Any:
    """A scan whose steps split the key."""

    def step(carry: Any, _: None) -> Any:
        carry, drawn_with = jax.random.split(carry)
        return carry, (jax.random.bits(drawn_with, (3,)), jax.random.randint(drawn_with, (2,), -5, 100))

    return lax.scan(step, key, length=20)


def gradient(key: Any) -> Any:
    return jax.grad(lambda scale: (jax.random.uniform(key, (7,)) * scale).sum())(np.ones(7))


def twice(draw: Function) -> Function:
    return lambda state: draw(draw(state)[0])


def generator(algorithm: str, shape: tuple[int, ...], dtype: str) -> Function:
    chosen = getattr(lax.RandomAlgorithm, algorithm)
    return lambda state: lax.rng_bit_generator(state, shape, dtype, algorithm=chosen)


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        for shape in SIZES:
            if dtype == "uint32" or np.prod(shape) < 2000:
                found[f"bits-{dtype}-{shape}"] = (bits(shape, dtype), [KEY])
        found[f"bits-{dtype}-vmap"] = (jax.vmap(bits((5, 3), dtype)), [KEYS])
    for count in (1, 2, 5, 1000):
        found[f"split-{count}"] = (lambda key, count=count: jax.random.split(key, count), [KEY])
    numbers = np.arange(6, dtype=np.uint32)
    found |= {
        "split-vmap": (jax.vmap(jax.random.split), [KEYS]),
        "split-shape": (lambda key: jax.random.split(key, (2, 3)), [KEY]),
        "fold_in": (jax.random.fold_in, [KEY, np.uint32(7)]),
        "fold_in-vmap": (jax.vmap(jax.random.fold_in, (None, 0)), [KEY, numbers]),
        "fold_in-vmap-vmap": (jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None)), [KEYS, numbers]),
        "bits-vmap-vmap": (lambda key: jax.vmap(jax.vmap(bits((3,), "uint32")))(jax.random.split(key, (2, 3))), [KEY]),
        "bits-vmap-last": (jax.vmap(bits((300,), "uint32"), 1, 1), [np.ascontiguousarray(KEYS.T)]),
        "key-of-a-seed": (lambda seed: jax.random.key_data(jax.random.key(seed)), [np.int32(-3)]),
        "key-of-a-long-seed": (lambda seed: jax.random.key_data(jax.random.key(seed)), [np.int64(-3)]),
        "known-key": (lambda x: x + jax.random.bits(jax.random.key(3), (5,)), [np.uint32(1)]),
        "scan": (steps, [KEY]),
        "grad": (gradient, [KEY]),
        "permutation": (lambda key: jax.random.permutation(key, 100), [KEY]),
        "rbg": (lambda seed: jax.random.bits(jax.random.key(seed, impl="rbg"), (9,)), [np.uint32(7)]),
        "rbg-vmap": (
            jax.vmap(lambda seed: jax.random.bits(jax.random.key(seed, impl="rbg"), (9,))),
            [np.arange(3, dtype=np.uint32)],
        ),
    }
    edge = np.array([2**64 - 1, 2**64 - 2], np.uint64)  # a counter that wraps round
    for algorithm in ALGORITHMS:
        for dtype in ("uint8", "uint16", "uint32", "uint64"):
            for shape in ((), (0,), (5, 3), (3, 5), (3, 4, 3), (5001,)):
                if algorithm == "RNG_DEFAULT" and dtype != "uint32":
                    continue
                name = f"{algorithm}-{dtype}-{shape}"
                found[name] = (generator(algorithm, shape, dtype), [np.arange(4, dtype=np.uint32)])
        found[f"{algorithm}-wrap"] = (generator(algorithm, (33,), "uint32"), [edge])
        again = twice(generator(algorithm, (7,), "uint32"))
        found[f"{algorithm}-next"] = (again, [np.arange(4, dtype=np.uint32)])
    return found


def messages_of(function: Function, arguments: list[Any], device: jax.Device, cpu: jax.Device) -> list[str]:
    def results_on(where: jax.Device) -> list[np.ndarray[Any, Any]]:
        given = jax.device_put(arguments, where)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*given))]

    try:
        pairs = list(zip(results_on(device), results_on(cpu), strict=True))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    wrong = [(a, b) for a, b in pairs if a.dtype != b.dtype or not np.array_equal(a, b)]
    return [f"{a.ravel()[:8]} is not {b.ravel()[:8]}" for a, b in wrong]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--original", action="store_true")
    jax.config.update("jax_threefry_partitionable", not parser.parse_args().original)
    jax.config.update("jax_enable_x64", True)
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    device, cpu = jax.devices(pjrt_mydev.device_name())[0], jax.devices("cpu")[0]
    found = cases()
    messages = {name: messages_of(*case, device, cpu) for name, case in found.items()}
    print(json.dumps({"cases": len(found), "wrong": {name: said for name, said in messages.items() if said}}))


if __name__ == "__main__":
    main()
