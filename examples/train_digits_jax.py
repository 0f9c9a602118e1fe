"""Trains a network with JAX on the device, on real handwritten digits, on one device and on four.

    MYDEV_DRIVER=host:devices=4 python examples/train_digits_jax.py

A small convolutional network learns scikit-learn's digits (1,797 scans of 8 x 8 pixels), in plain JAX with Adam from
optax: first on one device, then data-parallel on all of them, each with its part of every batch. Then the same training
step is timed on the device and on JAX's CPU, in turns. Exits with 1 if a network misses its accuracy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

import pjrt_mydev

BATCH = 64
TEST_COUNT = 360
EPOCHS = 15
GOAL = 97.0  # percent of the test images

Parameters = dict[str, jax.Array]
State = tuple[Parameters, Any]
OPTIMIZER = optax.adam(3e-3)


def initial_state() -> State:
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"first": (3, 3, 1, 16), "second": (3, 3, 16, 32), "last": (128, 10)}
    parameters = {
        name: jax.random.normal(key, shape) * np.sqrt(2 / np.prod(shape[:-1]))
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    return parameters, OPTIMIZER.init(parameters)


def scores(parameters: Parameters, images: jax.Array) -> jax.Array:
    """Returns ten scores for each image of [n, 8, 8, 1]."""
    x = images
    for name in ("first", "second"):
        x = lax.conv_general_dilated(x, parameters[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(len(x), -1) @ parameters["last"]


def loss(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(scores(parameters, images), labels).mean()


def training_step(
    state: State, images: jax.Array, labels: jax.Array, axis: str | None = None
) -> tuple[State, jax.Array]:
    """One step of Adam; with an axis, on this device's part of a batch, whose gradients are averaged over the axis."""
    parameters, optimizer = state
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    if axis is not None:
        value, gradients = lax.pmean((value, gradients), axis)
    updates, optimizer = OPTIMIZER.update(gradients, optimizer)
    return (optax.apply_updates(parameters, updates), optimizer), value


def parallel_step(devices: list[jax.Device]) -> Callable[..., tuple[State, jax.Array]]:
    """The step on several devices: parameters whole on each of them, batches in parts."""
    mesh = Mesh(np.array(devices), ("batch",))
    whole, part = PartitionSpec(), PartitionSpec("batch")
    step = jax.shard_map(
        lambda state, images, labels: training_step(state, images, labels, "batch"),
        mesh=mesh,
        in_specs=(whole, part, part),
        out_specs=(whole, whole),
        check_vma=False,
    )
    shardings = [NamedSharding(mesh, spec) for spec in (whole, part, part)]
    return jax.jit(step, in_shardings=shardings, donate_argnums=0)


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[order] / 16).astype(np.float32)[..., None]
    return images, data.target[order].astype(np.int32)


def train(name: str, step: Callable[..., tuple[State, jax.Array]]) -> bool:
    images, labels = digits()
    train_images, train_labels = images[TEST_COUNT:], labels[TEST_COUNT:]
    generator = np.random.default_rng(1)
    state = initial_state()
    value = jnp.zeros(())
    for _ in range(EPOCHS):
        order = generator.permutation(len(train_labels))
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[begin : begin + BATCH]
            state, value = step(state, train_images[batch], train_labels[batch])
    parameters = jax.device_get(state[0])
    reached = float((jax.jit(scores)(parameters, images[:TEST_COUNT]).argmax(1) == labels[:TEST_COUNT]).mean()) * 100
    print(f"{name}: loss {float(value):.4f}, test accuracy {reached:.2f} % (goal {GOAL} %)")
    return reached >= GOAL


def time_steps(rounds: int = 40, steps: int = 5) -> dict[str, float]:
    """Median microseconds of one training step on the device and on JAX's CPU; they take turns within every round."""
    images, labels = digits()
    names = (pjrt_mydev.device_name(), "cpu")
    state = jax.device_get(initial_state())
    runs = {}
    for name in names:
        device = jax.devices(name)[0]
        batch = jax.device_put((images[:BATCH], labels[:BATCH]), device)
        runs[name] = [jax.jit(training_step, donate_argnums=0), jax.device_put(state, device), batch]
    times: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds + 5):
        for name, run in runs.items():
            begin = time.perf_counter()
            for _ in range(steps):
                run[1], value = run[0](run[1], *run[2])
            value.block_until_ready()
            if round_number >= 5:  # the first rounds compile and warm up
                times[name].append((time.perf_counter() - begin) / steps * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    argparse.ArgumentParser(description="Train a network on handwritten digits with JAX on the device.").parse_args()
    name = pjrt_mydev.device_name()
    os.environ.setdefault("MYDEV_DRIVER", "host:devices=4")
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{name},cpu")
    devices = jax.devices()
    print(f"JAX {jax.__version__} on {len(devices)} devices: {devices[0].device_kind}")
    good = train("on one device", jax.jit(training_step, donate_argnums=0))
    if len(devices) > 1 and BATCH % len(devices) == 0:
        good = train(f"on {len(devices)} devices", parallel_step(devices)) and good
    micros = time_steps()
    print(
        f"training step: {micros[name]:.0f} us on {name}, {micros['cpu']:.0f} us on JAX's CPU: "
        f"{micros['cpu'] / micros[name]:.2f} times as fast"
    )
    print("demo: all is well" if good else "demo: a goal was missed, see above")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
