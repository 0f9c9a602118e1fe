"""Programs of JAX on several devices: collectives, manual computations, shardings."""

from __future__ import annotations

import json

import pytest

from pjrt.clients import output_of, require, run_client

START = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
jax.config.update("jax_use_shardy_partitioner", SHARDY)
devices = jax.devices()
mesh = Mesh(np.array(devices), ("x",))
grid = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
def on(mesh, *specs): return NamedSharding(mesh, P(*specs))
def shown(x): return np.asarray(x).tolist()
results = {}
"""
END = "\nprint(json.dumps(results))\n"

PROGRAMS = """
def shards(f, into=P("x"), out=P("x")):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=into, out_specs=out, check_vma=False))

x = np.arange(16, dtype=np.float32).reshape(4, 4)
results["pmap"] = shown(jax.pmap(lambda x: x + lax.psum(x, "i"), axis_name="i")(np.arange(4)))
results["psum"] = shown(shards(lambda x: lax.psum(x, "x"), out=P())(x))
results["pmax"] = shown(shards(lambda x: lax.pmax(x, "x"), out=P())(x))
results["all_gather"] = shown(shards(lambda x: lax.all_gather(x, "x", tiled=True) * 2, out=P())(x))
results["psum_scatter"] = shown(shards(lambda x: lax.psum_scatter(x[0], "x", tiled=True))(x))
results["all_to_all"] = shown(shards(lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), out=P(None, "x"))(x))
results["ppermute"] = shown(shards(lambda x: lax.ppermute(x, "x", [(0, 1), (1, 2), (2, 3)]))(x))
results["axis_index"] = shown(shards(lambda x: x + lax.axis_index("x"))(x))
results["in_a_loop"] = shown(shards(lambda x: lax.fori_loop(0, 3, lambda i, a: lax.psum(a, "x") / 4 + i, x))(x))
results["groups"] = shown(
    jax.jit(jax.shard_map(lambda x: lax.psum(x, "b"), mesh=grid, in_specs=P("a", "b"), out_specs=P("a")))(x))
results["jit"] = shown(jax.jit(lambda x: x @ x.T, out_shardings=on(grid, "b"))(jax.device_put(x, on(grid, "a", "b"))))
arrays = jax.device_put(x, on(grid, "a", "b"))
results["constrained"] = shown(jax.jit(
    lambda x: lax.with_sharding_constraint(x.T, on(grid, ("b", "a"))) * 2, donate_argnums=0)(arrays.copy()))
kept = jax.jit(lambda x: lax.with_sharding_constraint(x, on(grid, P.UNCONSTRAINED, "b")) + 1)(
    jax.device_put(x, on(grid, "a")))
results["left_open"] = [shown(kept), list(kept.sharding.spec)]
results["result_of_jit"] = shown(jax.jit(lambda a: (a + a.sum(), a.T)[1])(arrays))
both = jax.jit(jax.shard_map(lambda x: x + lax.psum(x, "a"), mesh=grid, in_specs=P("a", "b"), out_specs=P("a", "b")))
results["called"] = shown(jax.jit(lambda x: both(x * 2) / 2 + 1)(x))
results["called_twice"] = shown(jax.jit(lambda x: both(both(x)))(x))
results["returned_by_a_call"] = shown(jax.jit(lambda x: both(x).T)(x))
def along(axis, f, spec, mesh=None): return jax.shard_map(
    f, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={axis})
results["over_one_axis"] = shown(jax.jit(along("b", lambda x: lax.pmax(x, "b"), P("b"), grid))(x))
results["index_of_one_axis"] = shown(jax.jit(along("b", lambda x: x + lax.axis_index("b"), P("b"), grid))(x))
with jax.set_mesh(grid):
    def inner(x): return along("b", lambda x: x + lax.axis_index("b"), P(None, "b"))(x)
    results["nested"] = shown(jax.jit(along("a", lambda x: inner(x * 2) * lax.axis_index("a"), P("a")))(x))
largest = shards(lambda x: tuple(lax.approx_max_k(x, 2)), out=(P("x"), P("x")))
results["approx_max_k"] = [shown(part) for part in largest(x)]
largest_of_whole = jax.jit(lambda x: lax.approx_min_k(x, 2)[1])
results["approx_min_k"] = shown(largest_of_whole(arrays))
called = []
def calls(x):
    io_callback(lambda: called.append(1), None)
    return x * 2
results["callback"] = shown(shards(calls)(x))
jax.effects_barrier()
results["callbacks"] = len(called)
one = Mesh(np.array(devices[:1]), ("x",))
on_one = jax.jit(jax.shard_map(lambda x: lax.psum(x, "x"), mesh=one, in_specs=P("x"), out_specs=P()))
explicit = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
with jax.set_mesh(explicit):
    placed = jax.device_put(x, P("a", "b"))
    product = jax.jit(lambda x: jnp.einsum("ij,jk->ik", x, x.T, out_sharding=P("a")))
    texts = {"out_sharding": product.lower(placed).compile().as_text()}
texts["shard_map"] = shards(lambda x: lax.psum(x, "x"), out=P()).lower(x).compile().as_text()
texts["one device"] = on_one.lower(jax.device_put(x, devices[0])).compile().as_text()
texts["constraint"] = jax.jit(lambda x: lax.with_sharding_constraint(x * 2, on(grid, "b")) + 1).lower(
    arrays).compile().as_text()
texts["top_k"] = largest.lower(x).compile().as_text()
results["texts"] = {name: [text.startswith("HloModule jit"), "all-reduce" in text] for name, text in texts.items()}
results["grad"] = shown(jax.grad(lambda x: shards(lambda x: lax.psum(jnp.sum(x**3), "x"), out=P())(x))(x))
"""


#: JAX has two forms of programs for several devices: Shardy's, and GSPMD's.
PARTITIONERS = {"shardy": "SHARDY = True\n", "gspmd": "SHARDY = False\n"}


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize(
    "driver", ["host:devices=4", "host:devices=4,async", "host:devices=4,remote,async,guarded,kernels=none"]
)
def test_programs_of_four_devices(driver: str, partitioner: str) -> None:
    require("jax", "jax==0.10.2")
    code = PARTITIONERS[partitioner] + START + PROGRAMS + END
    results = json.loads(output_of(code, driver).splitlines()[-1])
    x = [[4.0 * row + column for column in range(4)] for row in range(4)]
    sums = [sum(column) for column in zip(*x, strict=True)]
    columns = [list(column) for column in zip(*x, strict=True)]
    assert results["pmap"] == [6, 7, 8, 9]
    assert results["psum"] == [sums]
    assert results["pmax"] == [x[3]]
    assert results["all_gather"] == [[2 * value for value in row] for row in x]
    assert results["psum_scatter"] == sums
    assert results["all_to_all"] == x
    assert results["ppermute"] == [[0.0] * 4, *x[:3]]
    assert results["axis_index"] == [[value + row for value in values] for row, values in enumerate(x)]
    assert results["in_a_loop"] == [[value / 4 + 3 for value in sums]] * 4
    assert results["groups"] == [[row[0] + row[2], row[1] + row[3]] for row in x]
    assert results["jit"] == [[sum(a * b for a, b in zip(p, q, strict=True)) for q in x] for p in x]
    assert results["result_of_jit"] == columns
    left = ["a", "b"] if partitioner == "shardy" else [None, "b"]  # GSPMD's calls do not say what is left open
    assert results["left_open"] == [[[value + 1 for value in row] for row in x], left]
    summed = [[a + b + c for a, b, c in zip(x[row], x[row % 2], x[row % 2 + 2], strict=True)] for row in range(4)]
    assert results["called"] == [[value + 1 for value in row] for row in summed]
    assert results["called_twice"] == [
        [a + b + c for a, b, c in zip(summed[row], summed[row % 2], summed[row % 2 + 2], strict=True)]
        for row in range(4)
    ]
    assert results["returned_by_a_call"] == [list(column) for column in zip(*summed, strict=True)]
    assert results["over_one_axis"] == [*x[2:], *x[2:]]
    assert results["index_of_one_axis"] == [[value + row // 2 for value in values] for row, values in enumerate(x)]
    assert results["nested"] == [
        [(2 * value + column // 2) * (row // 2) for column, value in enumerate(values)] for row, values in enumerate(x)
    ]
    assert results["approx_max_k"] == [[[row[3], row[2]] for row in x], [[3, 2]] * 4]
    assert results["approx_min_k"] == [[0, 1]] * 4
    assert results["callback"] == [[2 * value for value in row] for row in x]
    assert results["callbacks"] == 4
    assert results["texts"] == {
        "out_sharding": [True, True],
        "shard_map": [True, True],
        "one device": [True, True],
        "constraint": [True, False],
        "top_k": [True, False],
    }
    assert results["constrained"] == [[2 * value for value in column] for column in columns]
    assert results["grad"] == [[3 * value**2 for value in row] for row in x]


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_what_is_gathered_is_reported_once(partitioner: str) -> None:
    require("jax", "jax==0.10.2")
    code = """
f = jax.jit(lambda x: x[::-1])
y = jax.device_put(x := np.arange(8, dtype=np.float32), on(mesh, "x"))
f(f(y)).block_until_ready()
jax.jit(jax.shard_map(lambda x: x + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(y).block_until_ready()
"""
    result = run_client(PARTITIONERS[partitioner] + START + code, "host:devices=4", MYDEV_LOG="debug")
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if "DEBUG" in line and "gathers" in line]
    assert line == (
        "torch_mydev DEBUG: program 'jit__lambda' for 4 devices gathers shards of argument 0, tensor<8xf32>"
    )


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_a_training_step_on_parts_of_a_batch_gathers_nothing(partitioner: str) -> None:
    require("jax", "jax==0.10.2")
    code = """
sys.path.insert(0, "tests/pjrt/programs")
from jax_partitioned import PROGRAMS
program = PROGRAMS["training"]
put = [jax.device_put(a, on(mesh)) for a in program.arguments[:3]]
put += [jax.device_put(a, on(mesh, "x")) for a in program.arguments[3:]]
jax.block_until_ready(jax.jit(program.function)(*put))
"""
    result = run_client(PARTITIONERS[partitioner] + "import sys" + START + code, "host:devices=4", MYDEV_LOG="debug")
    assert result.returncode == 0, result.stderr
    assert "gathers shards" not in result.stderr


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_parts_of_different_sizes_are_refused(partitioner: str) -> None:
    require("jax", "jax==0.10.2")
    code = (
        PARTITIONERS[partitioner]
        + START
        + "jax.jit(lambda x: x + 1, in_shardings=on(mesh, 'x'))(np.zeros(6, np.float32))"
    )
    result = run_client(code, "host:devices=4")
    assert result.returncode != 0
    assert "should evenly divide the shape" in result.stderr


def test_training_reaches_its_goal_on_one_device_and_on_four() -> None:
    require("jax", "jax==0.10.2")
    require("optax", "optax==0.2.8")
    code = "import runpy, sys; sys.argv = ['']; runpy.run_path('examples/train_digits_jax.py', run_name='__main__')"
    output = output_of(code, "host:devices=4")
    assert "on one device: loss" in output
    assert "on 4 devices: loss" in output
    assert output.rstrip().endswith("demo: all is well")
