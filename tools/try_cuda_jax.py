"""Trains with JAX on the device of MYDEV_DRIVER, compares with JAX's CPU, and prints times: for tools/try_cuda.sh.

Times are medians in milliseconds, with the work finished.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "mydev,cpu")

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError as error:
    print(f"JAX is not here: {error}")
    sys.exit(0)

import pjrt_mydev

ROUNDS = 20
SIZE = 2048


def train(device: Any) -> list[float]:
    """The losses of ten steps of a small network."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(256, 64)).astype(np.float32), random.integers(0, 10, 256)
    sizes = ((64, 128), (128, 10))
    parameters = [random.normal(size=size).astype(np.float32) / 8 for size in sizes]

    def loss(parameters: list[Any], x: Any, y: Any) -> Any:
        hidden = jax.nn.gelu(x @ parameters[0])
        logits = jax.nn.log_softmax(hidden @ parameters[1])
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], axis=1))

    @jax.jit
    def step(parameters: list[Any], x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        return value, [p - 0.5 * g for p, g in zip(parameters, gradients, strict=True)]

    given = jax.device_put((parameters, x, y.astype(np.int32)), device)
    losses = []
    parameters, x, y = given
    for _ in range(10):
        value, parameters = step(parameters, x, y)
        losses.append(float(value))
    return losses


def median_ms(function: Callable[[Any], Any], x: Any) -> float:
    for _ in range(3):
        function(x).block_until_ready()
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        function(x).block_until_ready()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds) * 1e3


def times(device: Any) -> dict[str, float]:
    x = jax.device_put(np.random.default_rng(1).normal(size=(SIZE, SIZE)).astype(np.float32), device)
    work: dict[str, Callable[[Any], Any]] = {
        "x * 2 + 1": lambda x: x * 2 + 1,
        "gelu": jax.nn.gelu,
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "sum of rows": lambda x: x.sum(axis=1),
        "transpose": lambda x: x.T + 0,
        "x @ x": lambda x: x @ x,
    }
    return {name: median_ms(jax.jit(function), x) for name, function in work.items()}


def main() -> int:
    pjrt_mydev.initialize()
    device = jax.devices(pjrt_mydev.device_name())[0]
    print(f"JAX {jax.__version__} on {device}")
    here, there = train(device), train(jax.devices("cpu")[0])
    print(f"losses here {here[0]:.6f} ... {here[-1]:.6f}, on the CPU {there[0]:.6f} ... {there[-1]:.6f}")
    right = bool(np.allclose(here, there, rtol=1e-4))
    print("the losses agree" if right else "THE LOSSES DIFFER")
    print(f"| {SIZE} x {SIZE} f32, ms | here |\n| --- | --- |")
    for name, milliseconds in times(device).items():
        print(f"| {name} | {milliseconds:.3f} |")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
