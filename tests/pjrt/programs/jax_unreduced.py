"""Sums that shardings leave to be made, in JAX's explicit mode: what each of four devices has, against JAX's CPU.

python jax_unreduced.py prints what is wrong, as {name: [message, ...]}. XLA_FLAGS has to give the CPU four devices:
--xla_force_host_platform_device_count=4.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, reshard
from jax.sharding import PartitionSpec as P
from jax_training import normal

import pjrt_mydev

Array = np.ndarray[Any, Any]
# Tolerances as fractions of the largest number, since sums of parts are in another order.
TOLERANCES = {"bfloat16": 2e-2, "float32": 2e-6}
MESHES = {"2x2": (2, 2), "4x1": (4, 1)}

X, W, D = normal(8, 16), normal(16, 12, seed=1), normal(8, 12, seed=2)
BATCHES, LABELS = normal(3, 8, 16, seed=3), normal(3, 8, 12, seed=4)


def put(value: Any, *spec: Any, **kinds: Any) -> jax.Array:
    placed = jax.device_put(value, P(*spec))
    return reshard(placed, P(*spec, **kinds)) if kinds else placed


def product(x: jax.Array, w: jax.Array, *spec: Any, **kinds: Any) -> jax.Array:
    return jnp.einsum("...j,jk->...k", x, w, out_sharding=P(*spec, **kinds))


def squares(x: jax.Array) -> jax.Array:
    return (x**2).sum()


def added_products(dtype: Any) -> Any:
    x, w = put(X.astype(dtype), "x", "y"), put(W.astype(dtype), "y", None)

    @jax.jit
    def added(x: jax.Array, w: jax.Array) -> jax.Array:
        first, second = product(x, w, "x", unreduced={"y"}), product(x * 2, w, "x", unreduced={"y"})
        return reshard(first + second, P("x"))

    return added(x, w), jax.jit(jax.grad(lambda x, w: squares(added(x, w)), (0, 1)))(x, w)


def results_and_arguments(dtype: Any) -> Any:
    x, w = put(X.astype(dtype), "x", "y"), put(W.astype(dtype), "y", None)
    given = jax.jit(lambda x, w: product(x, w, "x", unreduced={"y"}))(x, w)
    specs = [P("x"), P("x", "y"), P(("x", "y")), P(), P(None, "y"), P("y", "x"), P(unreduced={"y"})]
    return given, given + given, jax.jit(lambda x: x + x)(given), [reshard(given, spec) for spec in specs]


def over_both_axes() -> Any:
    x, w = put(X, None, ("x", "y")), put(W, ("x", "y"), None)
    given = jax.jit(lambda x, w: product(x, w, unreduced={"x", "y"}))(x, w)
    specs = [P(unreduced={"x"}), P("x", unreduced={"y"}), P("x", "y"), P("y", "x"), P(("x", "y")), P(("y", "x")), P()]
    return given, [reshard(given, spec) for spec in specs]


def from_values_and_parts() -> Any:
    whole, rows, both, tiles = put(X, None), put(X, "x"), put(X, ("x", "y")), put(X, "x", "y")
    return [
        *(reshard(whole, P(*spec, unreduced={"y"})) for spec in [(), ("x",), (None, "x")]),
        reshard(whole, P(unreduced={"x", "y"})),
        reshard(rows, P("x", unreduced={"y"})),
        reshard(rows, P("y", unreduced={"x"})),
        reshard(rows, P(unreduced={"x", "y"})),
        reshard(both, P("x", unreduced={"y"})),
        reshard(both, P(unreduced={"x", "y"})),
        reshard(tiles, P("x", unreduced={"y"})),
        reshard(tiles, P(unreduced={"x", "y"})),
        reshard(put(np.arange(8), "x"), P(unreduced={"x", "y"})),
        jax.jit(lambda: reshard(jnp.ones((8, 4)), P("x", unreduced={"y"})))(),
    ]


def reductions(dtype: Any) -> Any:
    x = put(X.astype(dtype), "x", "y")

    def reduced(x: jax.Array, *dimensions: int, **spec: Any) -> jax.Array:
        return lax.reduce_sum(x, dimensions, out_sharding=P(*spec.pop("of", ()), **spec))

    rows = jax.jit(lambda x: reduced(x, 0, of=("y",), unreduced={"x"}))(x)
    columns = jax.jit(lambda x: reduced(x, 1, of=("x",), unreduced={"y"}))(x)
    both = jax.jit(lambda x: reduced(reduced(x, 1, of=("x",), unreduced={"y"}), 0, unreduced={"x", "y"}))(x)
    return rows, columns, both, reshard(rows, P("y")), reshard(columns, P()), reshard(both, P())


def operations_on_summands() -> Any:
    # Sums are compared, since XLA makes some of them before. The CPU makes those of jnp.stack twice.
    def computed(x: jax.Array, w: jax.Array, ones: jax.Array) -> Any:
        given = product(x, w, "x", unreduced={"y"})
        results = [
            given.T,
            lax.reshape(given, (8, 3, 4)),
            jnp.concatenate([given, given], 1),
            jnp.split(given, 3, 1),
            lax.slice(given, (0, 0), (8, 5)),
            lax.pad(given, np.float32(0), ((0, 0, 0), (1, 2, 0))),
            lax.dynamic_update_slice(given, lax.slice(given, (0, 0), (8, 5)), (0, 2)),
            lax.select(ones > 0, given, given + given),
            given.astype(jnp.bfloat16),
            given.sum(1),
            lax.broadcast(given, (2,), out_sharding=P(None, "x", unreduced={"y"})),
            lax.optimization_barrier(given),
            lax.cond(w.sum() > 0, lambda x: x + x, lambda x: x, given),
            lax.fori_loop(0, 3, lambda _, x: x + x, given),
            jax.checkpoint(lambda x: x + x)(given),
            given * reshard(ones, P("x", reduced={"y"})),
        ]
        specs = [jax.typeof(result).sharding.spec for result in jax.tree.leaves(results)]
        whole = [P(*spec.partitions, reduced=spec.reduced) for spec in specs]
        return [reshard(result, spec) for result, spec in zip(jax.tree.leaves(results), whole, strict=True)]

    return jax.jit(computed)(put(X, "x", "y"), put(W, "y", None), put(D, "x"))


def gradients_of_reduced() -> Any:
    x, w = put(X, "x", None), put(W)
    gradient = jax.jit(jax.grad(lambda w, x: squares(product(x, w, "x"))))(put(W, None, None, reduced={"x"}), x)
    inside = jax.jit(jax.value_and_grad(lambda w, x: squares(product(x, reshard(w, P(reduced={"x"})), "x"))))(w, x)
    return gradient, [reshard(gradient, spec) for spec in [P(), P("x"), P(None, "x"), P(("x", "y"))]], inside


def gathered_weights() -> Any:
    def loss(w: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
        hidden = jax.nn.relu(product(x, reshard(w, P(reduced={"x"})), "x"))
        return squares(hidden @ reshard(v, P(reduced={"x"})))

    return jax.jit(jax.value_and_grad(loss, (0, 1)))(put(W, "x", None), put(W.T, None, "x"), put(X, "x", None))


def over_batches(dtype: Any, *axes: str) -> Any:
    split = axes if len(axes) > 1 else axes[0]
    xs, ys = put(BATCHES.astype(dtype), None, split, None), put(LABELS.astype(dtype), None, split, None)

    def loss(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return squares(product(x, w, split) - y)

    @jax.jit
    def trained(w: jax.Array, xs: jax.Array, ys: jax.Array) -> Any:
        whole = reshard(w, P(reduced=set(axes)))

        def step(sums: jax.Array, batch: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(whole, *batch)
            return sums + gradient, value

        sums, losses = lax.scan(step, reshard(jnp.zeros_like(w), P(unreduced=set(axes))), (xs, ys))
        return sums, losses, w - 0.1 * reshard(sums, P()), reshard(sums, P("x")), reshard(sums, P(None, axes[-1]))

    return trained(put((W / 4).astype(dtype)), xs, ys)


def manual_arguments() -> Any:
    @jax.shard_map(in_specs=P("x", unreduced={"y"}), out_specs=P("x"))
    def summed(part: jax.Array) -> jax.Array:
        return lax.psum(part, "y")

    def computed(x: jax.Array, w: jax.Array) -> jax.Array:
        return summed(product(x, w, "x", unreduced={"y"}))

    x, w = put(X, "x", "y"), put(W, "y", None)
    return jax.jit(computed)(x, w), jax.jit(jax.grad(lambda x, w: squares(computed(x, w)), (0, 1)))(x, w)


def manual_results() -> Any:
    @jax.shard_map(out_specs=P("x", unreduced={"y"}))
    def parts(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.pcast(x @ w, "y", to="unreduced")

    def computed(x: jax.Array, w: jax.Array) -> jax.Array:
        return squares(reshard(parts(x, w), P("x")))

    x, w = put(X, "x", "y"), put(W, "y", None)
    given = jax.jit(parts)(x, w)
    return given, reshard(given, P("x", "y")), jax.jit(jax.grad(computed, (0, 1)))(x, w)


def manual_sums() -> Any:
    @jax.shard_map(out_specs=(P("x"), P("x", "y")))
    def sums(x: jax.Array, w: jax.Array) -> Any:
        parts = lax.pcast(x @ w, "y", to="unreduced")
        return lax.psum(parts, "y"), lax.psum_scatter(parts, "y", scatter_dimension=1, tiled=True)

    x, w = put(X, "x", "y"), put(W, "y", None)
    return jax.jit(sums)(x, w), jax.jit(jax.grad(lambda x, w: sum(map(squares, sums(x, w))), (0, 1)))(x, w)


def manual_over_batches() -> Any:
    @jax.shard_map(in_specs=(P(), P(None, ("x", "y"))), out_specs=P())
    def gradients(w: jax.Array, xs: jax.Array) -> jax.Array:
        whole = lax.pcast(w, ("x", "y"), to="reduced")
        zeros = lax.pcast(jnp.zeros_like(w), ("x", "y"), to="varying")
        sums, _ = lax.scan(
            lambda sums, x: (sums + jax.grad(lambda w: squares(x @ w))(whole), None),
            lax.pcast(zeros, ("x", "y"), to="unreduced"),
            xs,
        )
        return lax.psum(sums, ("x", "y"))

    return jax.jit(gradients)(put(W), put(BATCHES, None, ("x", "y")))


def manual_gradients() -> Any:
    @jax.shard_map(in_specs=(P(("x", "y")), P(reduced={"x", "y"})), out_specs=P(("x", "y")))
    def parts(x: jax.Array, w: jax.Array) -> jax.Array:
        return x @ w

    x, w = put(X, ("x", "y"), None), put(W, reduced={"x", "y"})
    gradient = jax.jit(jax.grad(lambda w, x: squares(parts(x, w))))(w, x)
    return gradient, reshard(gradient, P()), reshard(gradient, P("x", unreduced={"y"}))


def precisions() -> Any:
    x, w = put(X.astype(jnp.bfloat16), "x", "y"), put(W.astype(jnp.bfloat16), "y", None)

    def computed(x: jax.Array, w: jax.Array) -> jax.Array:
        spec = P("x", unreduced={"y"})
        return jnp.einsum("ij,jk->ik", x, w, out_sharding=spec, preferred_element_type=jnp.float32)

    given = jax.jit(computed)(x, w)
    return given, reshard(given.astype(jnp.bfloat16), P("x", "y"))


def other_numbers() -> Any:
    integers = put(np.arange(128, dtype=np.int32).reshape(8, 16), "x", "y")
    sums = jax.jit(lambda x: lax.reduce_sum(x, (1,), out_sharding=P("x", unreduced={"y"})))
    parts = sums(integers), sums(put(X + 1j, "x", "y"))
    return parts, [reshard(part, P("x")) for part in parts]


def asked_for_by_jit() -> Any:
    spec = P("x", unreduced={"y"})
    first = jax.jit(lambda x, w: product(x, w, *spec.partitions, unreduced={"y"}), out_shardings=spec)
    given = first(put(X, "x", "y"), put(W, "y", None))
    return given, jax.jit(lambda x: x + x, in_shardings=spec, out_shardings=spec)(given)


def scattered_sums() -> Any:
    def computed(x: jax.Array, w: jax.Array) -> Any:
        return [product(x, w, *spec) for spec in [("x", "y"), (("x", "y"),), (("y", "x"),), (None, ("x", "y"))]]

    return jax.jit(computed)(put(X, "x", "y"), put(W, "y", None))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "added products": lambda: added_products(np.float32),
    "added products, bf16": lambda: added_products(jnp.bfloat16),
    "results and arguments": lambda: results_and_arguments(np.float32),
    "results and arguments, bf16": lambda: results_and_arguments(jnp.bfloat16),
    "over both axes": over_both_axes,
    "from values and parts": from_values_and_parts,
    "reductions": lambda: reductions(np.float32),
    "reductions, bf16": lambda: reductions(jnp.bfloat16),
    "operations on summands": operations_on_summands,
    "gradients of reduced": gradients_of_reduced,
    "gathered weights": gathered_weights,
    "over batches": lambda: over_batches(np.float32, "x"),
    "over batches, bf16": lambda: over_batches(jnp.bfloat16, "x"),
    "over batches, two axes": lambda: over_batches(np.float32, "x", "y"),
    "manual arguments": manual_arguments,
    "manual results": manual_results,
    "manual sums": manual_sums,
    "manual over batches": manual_over_batches,
    "manual gradients": manual_gradients,
    "precisions": precisions,
    "other numbers": other_numbers,
    "asked for by jit": asked_for_by_jit,
    "scattered sums": scattered_sums,
}


def parts_of(program: Callable[[], Any], platform: str, sizes: tuple[int, int]) -> list[tuple[str, list[Array]]]:
    """Returns how each result is spread over the platform's devices, and the part that each device has."""
    mesh = Mesh(np.array(jax.devices(platform)).reshape(sizes), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        results = jax.tree.leaves(program())
    parts = []
    for result in results:
        assert isinstance(result.sharding, NamedSharding)
        parts.append((str(result.sharding.spec), [np.asarray(shard.data) for shard in result.addressable_shards]))
    return parts


def difference(actual: tuple[str, list[Array]], expected: tuple[str, list[Array]]) -> str:
    if actual[0] != expected[0]:
        return f"{actual[0]} in place of {expected[0]}"
    for part, wanted in zip(actual[1], expected[1], strict=True):
        if part.dtype != wanted.dtype or part.shape != wanted.shape:
            return f"{part.dtype}{part.shape} in place of {wanted.dtype}{wanted.shape}"
        kind = np.dtype(np.float32) if part.dtype.name == "bfloat16" else part.dtype
        found = np.abs(part.astype(kind) - wanted.astype(kind)).max(initial=0)
        most = np.abs(wanted.astype(kind)).max(initial=0) * TOLERANCES.get(part.dtype.name, TOLERANCES["float32"])
        if not found <= most:
            return f"{actual[0]}: {part}\nin place of\n{wanted}"
    return ""


def messages_of(program: Callable[[], Any], sizes: tuple[int, int]) -> list[str]:
    expected = parts_of(program, "cpu", sizes)
    try:
        actual = parts_of(program, pjrt_mydev.device_name(), sizes)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return list(filter(None, map(difference, actual, expected)))


def main() -> None:
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    found = {
        f"{name}, {mesh}": messages_of(PROGRAMS[name], sizes) for name in PROGRAMS for mesh, sizes in MESHES.items()
    }
    print(json.dumps({name: messages for name, messages in found.items() if messages}))


if __name__ == "__main__":
    main()
