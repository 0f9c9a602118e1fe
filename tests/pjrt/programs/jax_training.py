"""Real programs of JAX: networks that are trained for three steps, a system that moves, a sampler. Each runs on the
device and on JAX's CPU, in one process; what differs is printed as JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import pjrt_mydev

STEPS = 3
TOLERANCE = 1e-5  # relative and absolute: what JAX's tests of single functions ask of f32, though these are many

Program = Callable[[], Any]


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        name: normal(*shape, seed=seed) / np.float32(np.sqrt(np.prod(shape[:-1])))
        for seed, (name, shape) in enumerate(shapes.items())
    }


def trained(
    scores: Callable[..., jax.Array], parameters: Any, inputs: Any, optimizer: optax.GradientTransformation
) -> Any:
    """Losses, and what the parameters are after the steps."""

    def loss(parameters: Any) -> jax.Array:
        out = scores(parameters, inputs)
        labels = jnp.arange(len(out)) % out.shape[-1]
        return optax.softmax_cross_entropy_with_integer_labels(out, labels).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(parameters: Any, state: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    state, losses = optimizer.init(parameters), []
    for _ in range(STEPS):
        parameters, state, value = step(parameters, state)
        losses.append(value)
    return losses, parameters, state


def layer_norm(x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def convolutional_network() -> Any:
    def scores(parameters: Any, x: jax.Array) -> jax.Array:
        for name in ("first", "second"):
            x = lax.conv_general_dilated(
                x, parameters[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + parameters[name + "_bias"])
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.reshape(len(x), -1) @ parameters["last"]

    shapes = {
        "first": (3, 3, 1, 8),
        "first_bias": (8,),
        "second": (3, 3, 8, 16),
        "second_bias": (16,),
        "last": (64, 10),
    }
    return trained(scores, weights(**shapes), normal(16, 8, 8, 1), optax.adam(1e-2))


def transformer() -> Any:
    """Two blocks that are computed again for the gradient, over tokens, with a schedule and gradients clipped."""

    @jax.checkpoint
    def block(x: jax.Array, layer: Any) -> jax.Array:
        heads = [(layer_norm(x) @ layer[name]).reshape(*x.shape[:2], 4, -1) for name in ("query", "key", "value")]
        x = x + jax.nn.dot_product_attention(*heads, is_causal=True).reshape(x.shape) @ layer["out"]
        return x + jax.nn.gelu(layer_norm(x) @ layer["up"]) @ layer["down"]

    def scores(parameters: Any, tokens: jax.Array) -> jax.Array:
        x = parameters["tokens"][tokens] + parameters["places"][: tokens.shape[1]]
        x = lax.scan(lambda x, layer: (block(x, layer), None), x, parameters["layers"])[0]
        return layer_norm(x)[:, -1] @ parameters["tokens"].T

    square = dict.fromkeys(("query", "key", "value", "out"), (2, 32, 32))
    parameters = {"layers": weights(**square, up=(2, 32, 64), down=(2, 64, 32))} | weights(
        tokens=(50, 32), places=(16, 32)
    )
    schedule = optax.warmup_cosine_decay_schedule(1e-3, 1e-2, 2, 10)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    tokens = np.random.default_rng(3).integers(0, 50, (4, 12)).astype(np.int32)
    return trained(scores, parameters, tokens, optimizer)


def recurrent_network() -> Any:
    """An LSTM over a sequence."""

    def scores(parameters: Any, rows: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            hidden, cell = state
            gates = jnp.concatenate([row, hidden], -1) @ parameters["gates"]
            i, f, g, o = jnp.split(gates, 4, -1)
            cell = jax.nn.sigmoid(f + 1) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None

        zeros = jnp.zeros((rows.shape[1], 16))
        return lax.scan(step, (zeros, zeros), rows)[0][0] @ parameters["last"]

    parameters = weights(gates=(8 + 16, 64), last=(16, 5))
    return trained(scores, parameters, normal(20, 6, 8), optax.sgd(0.1, momentum=0.9, nesterov=True))


def physics() -> Any:
    """Bodies that attract each other, until two are close or time is over: where they were, and a gradient."""

    def acceleration(places: jax.Array) -> jax.Array:
        apart = places[None] - places[:, None]
        return (apart / ((apart**2).sum(-1, keepdims=True) + 0.1) ** 1.5).sum(1)

    def moved(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        places, speeds = state
        speeds = speeds + 0.01 * acceleration(places)
        return places + 0.01 * speeds, speeds

    def nearest(places: jax.Array) -> jax.Array:
        apart = ((places[None] - places[:, None]) ** 2).sum(-1) + 100 * jnp.eye(len(places))
        return jnp.sqrt(apart.min())

    def simulated(places: jax.Array) -> Any:
        def step(state: Any) -> Any:
            i, now, way = state
            now = moved(now)
            return i + 1, now, way.at[i].set(now[0][0])

        start = (jnp.int32(0), (places, jnp.zeros_like(places)), jnp.zeros((100, places.shape[1])))
        return lax.while_loop(lambda s: (s[0] < 100) & (nearest(s[1][0]) > 0.05), step, start)

    def distance(places: jax.Array) -> jax.Array:
        end = lax.fori_loop(0, 20, lambda _, state: moved(state), (places, jnp.zeros_like(places)))
        return nearest(end[0])

    places = normal(5, 3)
    return jax.jit(simulated)(places), jax.jit(jax.grad(distance))(places)


def sampler() -> Any:
    """Hamiltonian Monte Carlo: a logistic regression's weights, by chains that vmap makes of one."""
    inputs = normal(30, 3)
    labels = (inputs @ np.array([1.0, -2.0, 0.5], np.float32) > 0).astype(np.float32)

    def energy(w: jax.Array) -> jax.Array:
        scores = inputs @ w
        return (jax.nn.softplus(scores) - labels * scores).sum() + 0.5 * (w**2).sum()

    def transition(w: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        for_momentum, for_choice = jax.random.split(key)
        momentum = jax.random.normal(for_momentum, w.shape)

        def leap(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            place, speed = state
            speed = speed - 0.02 * jax.grad(energy)(place)
            place = place + 0.04 * speed
            return place, speed - 0.02 * jax.grad(energy)(place)

        proposed, speed = lax.fori_loop(0, 8, leap, (w, momentum))
        gain = energy(w) - energy(proposed) + 0.5 * ((momentum**2).sum() - (speed**2).sum())
        accepted = jnp.log(jax.random.uniform(for_choice)) < gain
        w = jnp.where(accepted, proposed, w)
        return w, w

    def chain(key: jax.Array) -> jax.Array:
        return lax.scan(transition, jnp.zeros(3), jax.random.split(key, 12))[1]

    return jax.jit(lambda: jax.vmap(chain)(jax.random.split(jax.random.key(0), 4)))()


PROGRAMS: list[Program] = [convolutional_network, transformer, recurrent_network, physics, sampler]


def message_of(program: Program, device: jax.Device, cpu: jax.Device, tolerance: float = TOLERANCE) -> str:
    """Returns what is wrong with the program on the device; "" if nothing is. The tolerance is relative and
    absolute."""
    results = []
    for where in (device, cpu):
        with jax.default_device(where):
            results.append(jax.tree.map(np.asarray, program()))
    try:
        for actual, expected in zip(*map(jax.tree.leaves, results), strict=True):
            assert actual.dtype == expected.dtype
            assert np.isfinite(actual).all()
            np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        return str(error)
    return ""


def main() -> None:
    """Prints {name: message}."""
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    device, cpu = jax.devices(pjrt_mydev.device_name())[0], jax.devices("cpu")[0]
    print(json.dumps({program.__name__: message_of(program, device, cpu) for program in PROGRAMS}))


if __name__ == "__main__":
    main()
