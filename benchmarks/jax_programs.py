"""Programs of JAX on the device and on JAX's CPU, compiled for both, in one process.

    python benchmarks/jax_programs.py [part of a row's name] [--rounds N]        MYDEV_DRIVER chooses the driver

Compile times are of a new function of the same kind at each turn, with JAX's tracing, which both have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from interleaved import Benchmark
from jax import lax

import pjrt_mydev

Function = Callable[..., Any]


def initialize() -> tuple[jax.Device, jax.Device]:
    """JAX's CPU and the device."""
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    return jax.devices("cpu")[0], jax.devices(pjrt_mydev.device_name())[0]


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def places(count: int, limit: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, limit, count).astype(np.int32)


def layer_norm(x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def chain(x: jax.Array) -> jax.Array:
    return jnp.tanh(x * 2 + 1) * x - 0.5


def scan(x: jax.Array) -> jax.Array:
    return lax.scan(lambda carry, _: (carry * 0.5 + x, None), x, length=1000)[0]


def scan_over_rows(x: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = carry * 0.9 + row
        return carry, carry.sum()

    return lax.scan(step, x, rows)


def recurrent(weights: jax.Array, x: jax.Array, rows: jax.Array) -> jax.Array:
    return lax.scan(lambda carry, row: (jnp.tanh(carry @ weights + row),) * 2, x, rows)[1]


def fill_in_order(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, len(x), lambda i, a: a.at[i].set(a[i - 1] * 0.5 + 1), x)


def draws_in_a_scan(draw: Function, steps: int) -> Function:
    """Each step splits the key, and draws with the second half."""

    def step(key: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        key, drawn_with = jax.random.split(key)
        return key, draw(drawn_with)

    return lambda key: lax.scan(step, key, length=steps)[1]


def conditions_in_a_scan(x: jax.Array) -> jax.Array:
    def step(x: jax.Array, _: None) -> tuple[jax.Array, None]:
        return lax.cond(x > 0.5, lambda x: x * 0.9, lambda x: x + 0.3, x), None

    return lax.scan(step, x, length=200)[0]


def rollout(state: jax.Array) -> tuple[jax.Array, jax.Array]:
    """500 steps of a pole on a cart, which begins anew when it falls."""

    def step(state: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        _, speed, angle, turn = state
        force = jnp.where(angle > 0, 10.0, -10.0)
        push = (force + 0.05 * turn**2 * jnp.sin(angle)) / 1.1
        fall = (9.8 * jnp.sin(angle) - jnp.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * jnp.cos(angle) ** 2 / 1.1))
        pull = push - 0.05 * fall * jnp.cos(angle) / 1.1
        state = state + 0.02 * jnp.stack([speed, pull, turn, fall])
        ends = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 0.2)
        return jnp.where(ends, 0.01, state), ends

    return lax.scan(step, state, length=500)


def stochastic_paths(key: jax.Array) -> jax.Array:
    """64 paths of 100 steps of a stochastic differential equation, by jax.vmap."""

    def path(key: jax.Array) -> jax.Array:
        def step(x: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
            return x - 0.01 * x + 0.1 * jax.random.normal(key, (2,)), None

        return lax.scan(step, jnp.ones(2), jax.random.split(key, 100))[0]

    return jax.vmap(path)(jax.random.split(key, 64))


def adaptive_solver(x: jax.Array) -> jax.Array:
    """Heun's method with steps that fit the error, until time 2."""

    def slope(x: jax.Array) -> jax.Array:
        return jnp.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        time, size, x = state
        first = slope(x)
        second = slope(x + size * first)
        error = size / 2 * jnp.abs(second - first).max()
        accepted = error < 1e-3
        time, x = jnp.where(accepted, time + size, time), jnp.where(accepted, x + size / 2 * (first + second), x)
        return time, size * jnp.clip(0.9 * jnp.sqrt(1e-3 / error), 0.2, 2.0), x

    return lax.while_loop(lambda state: state[0] < 2, step, (jnp.float32(0), jnp.float32(1e-3), x))[2]


def line_search(x: jax.Array) -> jax.Array:
    """50 steps downhill, each as long as halving finds that it pays."""

    def value(x: jax.Array) -> jax.Array:
        return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()

    def step(_: int, x: jax.Array) -> jax.Array:
        now, gradient = jax.value_and_grad(value)(x)
        wanted = 1e-4 * (gradient**2).sum()
        length = lax.while_loop(
            lambda length: value(x - length * gradient) > now - length * wanted, lambda length: length / 2, 1.0
        )
        return x - length * gradient

    return lax.fori_loop(0, 50, step, x)


def mlp(parameters: dict[str, Any], x: jax.Array) -> jax.Array:
    for name in ("first", "second"):
        x = jax.nn.relu(x @ parameters[name])
    return x @ parameters["last"]


def cnn(parameters: dict[str, Any], x: jax.Array) -> jax.Array:
    for name in ("first", "second"):
        x = lax.conv_general_dilated(x, parameters[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(len(x), -1) @ parameters["last"]


def transformer(parameters: dict[str, Any], x: jax.Array) -> jax.Array:
    """One block of four heads over [batch, position, 64]; scores of the last position."""
    batch, length, width = x.shape
    query, key, value = (
        (layer_norm(x) @ parameters[name]).reshape(batch, length, 4, width // 4) for name in ("query", "key", "value")
    )
    attended = jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(x.shape)
    x = x + attended @ parameters["out"]
    x = x + jax.nn.gelu(layer_norm(x) @ parameters["up"]) @ parameters["down"]
    return x[:, -1] @ parameters["last"]


def constant_layers(dtype: Any) -> Function:
    """Four layers of 1024, whose weights are constants of the program."""
    weights = [(normal(1024, 1024, seed=layer) / 32).astype(dtype) for layer in range(4)]

    def apply(x: jax.Array) -> jax.Array:
        for weight in weights:
            x = jax.nn.relu(x @ weight)
        return x

    return apply


def scaled(**shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name: normal(*shape) / np.sqrt(np.prod(shape[:-1])) for name, shape in shapes.items()}


MODELS: dict[str, tuple[Function, dict[str, Any], np.ndarray[Any, Any]]] = {
    "mlp": (mlp, scaled(first=(64, 128), second=(128, 128), last=(128, 10)), normal(64, 64)),
    "cnn": (cnn, scaled(first=(3, 3, 1, 16), second=(3, 3, 16, 32), last=(128, 10)), normal(64, 8, 8, 1)),
    "transformer": (
        transformer,
        scaled(query=(64, 64), key=(64, 64), value=(64, 64), out=(64, 64), up=(64, 256), down=(256, 64), last=(64, 10)),
        normal(8, 32, 64),
    ),
}


def training_step(model: Function) -> Function:
    """One step of Adam, written out: state is parameters and their two moments."""

    def loss(parameters: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(model(parameters, x))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def step(state: Any, x: jax.Array, labels: jax.Array) -> Any:
        parameters, first, second = state
        gradients = jax.grad(loss)(parameters, x, labels)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        update = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), parameters, first, second)
        return update, first, second

    return step


def positive(size: int) -> np.ndarray[Any, Any]:
    half = normal(size, size)
    return np.asarray(half @ half.T + size * np.eye(size), np.float32)


def calls_of(function: Function, *arguments: Any) -> Callable[[jax.Device], Callable[[], object]]:
    """Returns a function that takes a device; it gives one that calls the compiled function there and waits for it."""

    def on(device: jax.Device) -> Callable[[], object]:
        compiled = jax.jit(function)
        given = jax.device_put(arguments, device)
        return lambda: jax.block_until_ready(compiled(*given))

    return on


def compiles_of(function: Function, *arguments: Any) -> Callable[[jax.Device], Callable[[], object]]:
    def on(device: jax.Device) -> Callable[[], object]:
        given = jax.device_put(arguments, device)
        return lambda: jax.jit(lambda *a: function(*a)).lower(*given).compile()

    return on


def main() -> None:
    cpu, device = initialize()
    benchmark = Benchmark("programs of JAX", lanes=("jax cpu", pjrt_mydev.device_name()))
    square, small = normal(1024, 1024), normal(1024, 1024).astype(jnp.bfloat16)
    rows = {
        "x + 1, of 16": calls_of(lambda x: x + 1, normal(16)),
        "matmul 1024, f32": calls_of(jnp.matmul, square, square),
        "matmul 1024, bf16": calls_of(jnp.matmul, small, small),
        "matmul 128, s32": calls_of(jnp.matmul, *(places(128 * 128, 100).reshape(128, 128) for _ in range(2))),
        "matmul 64, c64": calls_of(jnp.matmul, *((normal(64, 64) + 1j * normal(64, 64)) for _ in range(2))),
        "constant weights, 1 row, f32": calls_of(constant_layers(np.float32), normal(1, 1024)),
        "constant weights, 1 row, bf16": calls_of(constant_layers(jnp.bfloat16), normal(1, 1024).astype(jnp.bfloat16)),
        "constant weights, 64 rows, f32": calls_of(constant_layers(np.float32), normal(64, 1024)),
        "chain of five, 64 MiB": calls_of(chain, normal(16 * 1024 * 1024)),
        "softmax 1024 x 1024": calls_of(jax.nn.softmax, square),
        "layer norm 1024 x 1024": calls_of(layer_norm, square),
        "scan of 1000 steps, 64": calls_of(scan, normal(64)),
        "scan of 1000 steps, over rows of 64": calls_of(scan_over_rows, normal(64), normal(1000, 64)),
        "recurrence of 200 steps, 8 x 32": calls_of(recurrent, normal(32, 32) / 6, normal(8, 32), normal(200, 8, 32)),
        "loop of 1000 steps, a[i] of a[i - 1]": calls_of(fill_in_order, normal(1000)),
        "conditions in a scan of 200": calls_of(conditions_in_a_scan, np.float32(0.2)),
        "while on a sum of 3": calls_of(
            lambda x: lax.while_loop(lambda x: x.sum() < 100, lambda x: x * 1.05 + 0.1, x), np.ones(3, np.float32)
        ),
        "rollout of 500 steps": calls_of(rollout, np.array([0.1, 0.2, 0.03, 0.04], np.float32)),
        "adaptive solver": calls_of(adaptive_solver, np.ones(3, np.float32)),
        "line searches": calls_of(line_search, np.zeros(8, np.float32)),
        "lexsort of two keys, 4096": calls_of(
            lambda a, b: jnp.lexsort((a, b)), places(4096, 1000), places(4096, 64, seed=1)
        ),
        "sort 1e6": calls_of(jnp.sort, normal(1000 * 1000)),
        "argsort 1e6": calls_of(jnp.argsort, normal(1000 * 1000)),
        "top 10 of 1000 x 1000": calls_of(lambda x: lax.top_k(x, 10), normal(1000, 1000)),
        "argmax 1000 x 1000": calls_of(lambda x: jnp.argmax(x, -1), normal(1000, 1000)),
        "cumulative sum of 1e5": calls_of(jnp.cumsum, normal(10**5)),
        "cumulative largest of 1e5": calls_of(lax.cummax, normal(10**5)),
        "cumulative largest of 1000 x 1000": calls_of(lambda x: lax.cummax(x, axis=1), normal(1000, 1000)),
        "cumulative log-sum-exp of 1e5": calls_of(lax.cumlogsumexp, normal(10**5)),
        "scatter-add 1e5": calls_of(lambda x, i, u: x.at[i].add(u), normal(10**5), places(10**5, 10**5), normal(10**5)),
        "segment sums, 1e5 rows of 16": calls_of(
            lambda u, i: jax.ops.segment_sum(u, i, 1000), normal(10**5, 16), places(10**5, 1000)
        ),
        "gather 1e5 rows of 64": calls_of(lambda x, i: x[i], normal(10**4, 64), places(10**5, 10**4)),
        "cholesky 64": calls_of(jnp.linalg.cholesky, positive(64)),
        "triangular solve 64": calls_of(
            lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), positive(64), normal(64, 16)
        ),
        "rfft of 16384": calls_of(jnp.fft.rfft, normal(16384)),
        "fft2 of 8 x 64 x 64": calls_of(jnp.fft.fft2, (normal(8, 64, 64) + 1j).astype(np.complex64)),
        "gather 1e5 elements": calls_of(
            lambda x, i, j: x[i, j], normal(1000, 1000), places(10**5, 1000), places(10**5, 1000, seed=1)
        ),
    }
    key, logits = jax.random.PRNGKey(0), normal(64, 2)
    draws: dict[str, Function] = {
        "scan of 100 steps: split, normal 2": draws_in_a_scan(lambda k: jax.random.normal(k, (2,)), 100),
        "scan of 100 steps: categorical 64 x 2": draws_in_a_scan(lambda k: jax.random.categorical(k, logits), 100),
        "normal 5": lambda k: jax.random.normal(k, (5,)),
        "normal 1e5": lambda k: jax.random.normal(k, (10**5,)),
        "permutation 10": lambda k: jax.random.permutation(k, 10),
        "poisson 5": lambda k: jax.random.poisson(k, 4.0, (5,)),
        "stochastic paths, 64 of 100 steps": stochastic_paths,
        "rbg bits 1e5": lambda k: lax.rng_bit_generator(jnp.concatenate([k, k]), (10**5,))[1],
    }
    rows |= {name: calls_of(draw, key) for name, draw in draws.items()}
    rows["population count 65536"] = calls_of(lax.population_count, places(65536, 2**31 - 1))
    labels = np.arange(64, dtype=np.int32) % 10
    for name, (model, parameters, x) in MODELS.items():
        moments = [jax.tree.map(np.zeros_like, parameters) for _ in range(2)]
        arguments = ((parameters, *moments), x, labels[: len(x)])
        rows[f"training step, {name}"] = calls_of(training_step(model), *arguments)
        rows[f"compile, {name}"] = compiles_of(training_step(model), *arguments)
    small_programs: dict[str, tuple[Function, Any]] = {
        "x + 1": (lambda x: x + 1, normal(16)),
        "chain of five": (chain, normal(1024)),
        "softmax": (jax.nn.softmax, square),
        "layer norm": (layer_norm, square),
        "scan": (scan, normal(64)),
    }
    for name, (function, argument) in small_programs.items():
        rows[f"compile, {name}"] = compiles_of(function, argument)
    for name, work in rows.items():
        if benchmark.wants(name):
            benchmark.row(name, work(cpu), work(device))
    benchmark.print_mean()


if __name__ == "__main__":
    main()
