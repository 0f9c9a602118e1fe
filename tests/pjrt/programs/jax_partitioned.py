"""Functions of JAX whose arguments are split over four devices at random: what they compute, against JAX's CPU.

python jax_partitioned.py [--gspmd] [--seed N] prints what is wrong, as {name: [message, ...]}.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax_training import normal

import pjrt_mydev

Array = np.ndarray[Any, Any]
TRIALS = 3  # ways of splitting, for each function
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}  # sums of parts are in another order

X, SQUARE, BATCH, IMAGES = normal(8, 12), normal(4, 4, 4), normal(4, 8, 12), normal(4, 4, 8, 8)
PLACES = np.array([1, 0, 3, 2, 7, 5, 5, 6], np.int32)


class Program(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def layer_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * weight


def convolved(x: jax.Array, weight: jax.Array, **options: Any) -> jax.Array:
    return (lax.conv_general_dilated(x, weight, padding="SAME", **options) ** 2).sum()


def recurrent(x: jax.Array, weight: jax.Array) -> Any:
    return lax.scan(lambda state, step: (jnp.tanh(state @ weight + step), state.sum(-1)), x[0], x)


def pooled(x: jax.Array) -> jax.Array:
    return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") ** 2).sum()


def indexed(x: jax.Array, places: jax.Array) -> jax.Array:
    return (x[places] ** 2).sum() + (jnp.take_along_axis(x, places[:, None], 1) ** 3).sum()


def until(x: jax.Array) -> Any:
    return lax.while_loop(
        lambda state: (state[0] < 5) & (state[1].sum() < 1e6),
        lambda state: (state[0] + 1, state[1] * 2 + state[1].mean(0)),
        (0, x),
    )


def trained(weights: Any, x: jax.Array, labels: jax.Array) -> Any:
    def loss(weights: Any) -> jax.Array:
        first, bias, second = weights
        scores = jax.nn.relu(x @ first + bias) @ second
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    value, gradients = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, weights, gradients)


PROGRAMS = {
    "dot": Program(lambda x, y: x @ y, (X, normal(12, 4))),
    "dot of batches": Program(lambda x, y: jnp.einsum("bij,bjk->bik", x, y), (BATCH, normal(4, 12, 4))),
    "reductions": Program(
        lambda x: (x.sum(), x.sum(0), x.max(1), x.prod(0), (x > 0).any(1), (x > 5).all()), (X,)
    ),
    "sum from a value": Program(lambda x: lax.reduce(x, 3.0, lax.add, (0,)), (X,)),
    "argmax": Program(lambda x: (x.argmax(0), x.argmax(1)), (X,)),
    "softmax": Program(lambda x: jax.nn.softmax(x, -1), (X,)),
    "layer_norm": Program(layer_norm, (X, normal(12))),
    "transpose": Program(lambda x: x.transpose(2, 0, 1) + 1, (BATCH,)),
    "reshape, merged": Program(lambda x: (x.reshape(32, 12), x.reshape(4, 96), x.reshape(384)), (BATCH,)),
    "reshape, split": Program(lambda x: (x.reshape(4, 2, 12), x.reshape(2, 48), x.reshape(8, 3, 4)), (X,)),
    "broadcast": Program(lambda x, y: x[:, None] * y, (normal(8), X)),
    "concatenate": Program(lambda x, y: (jnp.concatenate([x, y], 0), jnp.concatenate([x, y], 1)), (X, X + 1)),
    "slice": Program(lambda x: (x[:, 2:6], x[::2], x[1:], x[:, :4], x[::-1], x[:, ::-1]), (X,)),
    "pad": Program(lambda x: (jnp.pad(x, ((0, 0), (1, 2))), jnp.pad(x, ((2, 0), (0, 0)))), (X,)),
    "dynamic slice": Program(
        lambda x, i: (lax.dynamic_slice(x, (i, 0), (2, 12)), lax.dynamic_slice(x, (0, i), (8, 4))), (X, np.int32(3))
    ),
    "dynamic update": Program(
        lambda x, i: (
            lax.dynamic_update_slice(x, x[:, :1], (0, i)),
            lax.dynamic_update_slice(x, x[:2] * 2, (i, 0)),
        ),
        (X, np.int32(3)),
    ),
    "take": Program(lambda x, i: (x[i], jnp.take(x, i, axis=1)), (X, PLACES)),
    "gradient of take": Program(jax.grad(indexed), (X, PLACES)),
    "scatter": Program(
        lambda x, i, u: (x.at[i].add(u), x.at[i].set(u[0]), x.at[i].max(u), jnp.zeros_like(x).at[i].add(u)),
        (X, PLACES, normal(8, 12, seed=1)),
    ),
    "sort": Program(lambda x: (jnp.sort(x, 0), jnp.sort(x, 1), jnp.argsort(x, 1), lax.top_k(x, 3)), (X,)),
    "cumsum": Program(lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1)), (X,)),
    "convolution": Program(
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"), (IMAGES, normal(8, 4, 3, 3))
    ),
    "gradients of convolution": Program(
        jax.grad(lambda x, w: convolved(x, w, window_strides=(2, 1)), (0, 1)), (IMAGES, normal(8, 4, 3, 3) / 6)
    ),
    "gradients of depthwise convolution": Program(
        jax.grad(lambda x, w: convolved(x, w, window_strides=(1, 1), feature_group_count=4), (0, 1)),
        (IMAGES, normal(8, 1, 3, 3)),
    ),
    "gradient of pooling": Program(jax.grad(pooled), (IMAGES,)),
    "fft": Program(lambda x: jnp.abs(jnp.fft.rfft(x)), (X,)),
    "cholesky": Program(lambda x: jnp.linalg.cholesky(x @ x.mT + 4 * jnp.eye(4)), (SQUARE,)),
    "triangular_solve": Program(
        lambda x, y: jax.scipy.linalg.solve_triangular(jnp.tril(x) + 4 * jnp.eye(4), y, lower=True),
        (SQUARE, normal(4, 4, 4, seed=1)),
    ),
    "eigvalsh": Program(lambda x: jnp.linalg.eigvalsh(x + x.mT), (SQUARE,)),
    "scan": Program(recurrent, (normal(6, 8, 4), normal(4, 4) / 4)),
    "gradient of scan": Program(
        jax.grad(lambda x, w: (recurrent(x, w)[1] ** 2).sum(), (0, 1)), (normal(6, 8, 4) / 4, normal(4, 4) / 4)
    ),
    "while": Program(until, (X,)),
    "cond": Program(
        lambda x: lax.cond(x.sum() > 0, lambda x: (x * 2, x.T.reshape(8, 12)), lambda x: (x + 1, x), x), (X,)
    ),
    "switch": Program(
        lambda x, i: lax.switch(i, [lambda x: x.T, lambda x: x.T * 2, lambda x: x.reshape(12, 8)], x), (X, np.int32(1))
    ),
    "where": Program(lambda x, y: jnp.where(x > 0, y, 0) + jnp.clip(x, -1, 1), (X, X + 1)),
    "random": Program(lambda x: jax.random.normal(jax.random.key(3), x.shape) + x, (X,)),
    "bits": Program(lambda x: lax.bitcast_convert_type(x, jnp.int32) ^ 3, (X,)),
    "complex": Program(lambda x: jnp.abs((x + 1j) @ (x.T - 2j)), (X,)),
    "checkpoint": Program(
        jax.grad(lambda x, w: jax.checkpoint(lambda x: jnp.sin(x @ w))(x).sum(), 1), (X, normal(12, 4))
    ),
    "vmap": Program(jax.vmap(lambda a, b: a @ b + jnp.linalg.norm(a)), (BATCH, normal(4, 12, 4))),
    "iota": Program(lambda x: x + jnp.arange(12) + jnp.arange(8)[:, None] + jnp.eye(8, 12), (X,)),
    "training": Program(
        lambda *given: trained(given[:3], *given[3:]),
        (normal(12, 16) / 4, normal(16), normal(16, 8) / 4, X, PLACES),
    ),
}  # fmt: skip


def random_spec(shape: tuple[int, ...], choose: random.Random) -> PartitionSpec:
    """Axes for dimensions that they divide."""
    dimensions: list[list[str]] = [[] for _ in shape]
    for axis in choose.choice([(), ("a",), ("b",), ("a", "b"), ("b", "a")]):
        d = choose.randrange(len(shape)) if shape else 0
        if shape and shape[d] % 2 ** (len(dimensions[d]) + 1) == 0:
            dimensions[d].append(axis)
    return PartitionSpec(*(tuple(axes) or None for axes in dimensions))


def messages_of(program: Program, mesh: Mesh, choose: random.Random) -> list[str]:
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.tree.map(np.asarray, jax.jit(program.function)(*program.arguments))
    messages = []
    for _ in range(TRIALS):
        specs = [random_spec(np.shape(argument), choose) for argument in program.arguments]
        try:
            given = [
                jax.device_put(argument, NamedSharding(mesh, spec))
                for argument, spec in zip(program.arguments, specs, strict=True)
            ]
            actual = jax.tree.map(np.asarray, jax.jit(program.function)(*given))
            jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, **TOLERANCE), actual, expected)
        except Exception as error:
            messages.append(f"{specs}: {error}")
    return messages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gspmd", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    jax.config.update("jax_use_shardy_partitioner", not arguments.gspmd)
    jax.config.update("jax_default_matmul_precision", "highest")
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
    choose = random.Random(arguments.seed)
    found = {name: messages_of(program, mesh, choose) for name, program in PROGRAMS.items()}
    print(json.dumps({name: messages for name, messages in found.items() if messages}))


if __name__ == "__main__":
    main()
