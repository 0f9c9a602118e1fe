"""Programs whose arguments, results and values are in memory of the host: by JAX's names, compared with its CPU."""

from __future__ import annotations

import json

import pytest

from pjrt.clients import DRIVERS, output_of, require

START = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import compute_on as computing
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
Host, Device = jax.memory.Space.Host, jax.memory.Space.Device
"""

CASES = """
def cases_on(device):
    d, h, u = (SingleDeviceSharding(device, memory_kind=kind) for kind in ("device", "pinned_host", "unpinned_host"))
    x = jax.device_put(np.arange(4.0, dtype=np.float32), d)
    p, q = jax.device_put(x, h), jax.device_put(x, u)
    m = jax.device_put(np.arange(12.0, dtype=np.float32).reshape(3, 4), h)

    def on_host(v):
        tripled = jax.jit(lambda w: w * 3)
        if hasattr(computing, "compute_on2"):  # JAX 0.10, where it is a context
            return computing.compute_on("device_host")(tripled)(v)
        return computing.compute_on(
            tripled, compute_type="device_host", out_memory_spaces=jax.typeof(v).memory_space)(v)

    def offloading(policy):
        def f(v):
            v = checkpoint_name(jnp.sin(v), "kept")
            v = checkpoint_name(jnp.sin(v), "moved")
            return jnp.sin(v).sum()
        return jax.jit(jax.grad(jax.checkpoint(f, policy=policy)))(x)
    names = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["kept"], names_which_can_be_offloaded=["moved"], offload_src="device",
        offload_dst="pinned_host")

    def streamed(carry, weights):  # a layer at a time
        return jnp.tanh(carry * jax.device_put(weights, Device)), carry.sum()

    def adam(g, moments):
        first, second = (jax.device_put(v, Device) for v in moments)
        first, second = 0.9 * first + 0.1 * g, 0.99 * second + 0.01 * g * g
        return first / (jnp.sqrt(second) + 1), tuple(jax.device_put(v, Host) for v in (first, second))

    return {
        "put": lambda: jax.jit(lambda x: jax.device_put(x * 2, h))(x),
        "put by space": lambda: jax.jit(lambda x: (x + 1, jax.device_put(x * 2, Host)))(x),
        "out_shardings": lambda: jax.jit(lambda x: x * 2, out_shardings=h)(x),
        "out_shardings of three": lambda: jax.jit(lambda x: (x, x * 2, x + 1), out_shardings=(h, u, d))(x),
        "to the device": lambda: jax.jit(lambda p: jax.device_put(p, Device) * 2)(p),
        "to the device by sharding": lambda: jax.jit(lambda p: jax.device_put(p, d) * 2)(p),
        "there and back": lambda: jax.jit(lambda x: jax.device_put(jax.device_put(x, h), d) + 1)(x),
        "eager": lambda: (p + 1, -p, p[1], p[1:], p.copy(), jnp.copy(p), p.sum(), p.reshape(2, 2), p.astype(jnp.int32)),
        "unpinned": lambda: (q + 1, q[1], jax.jit(lambda q: jax.device_put(q, h))(q)),
        "identity": lambda: jax.jit(lambda p, x: (p, x, p, p * 1))(p, x),
        "in and out": lambda: jax.jit(lambda p: p * 2, in_shardings=h, out_shardings=h)(p),
        "host to device": lambda: jax.jit(lambda p: p * 2, in_shardings=h, out_shardings=d)(p),
        "unused": lambda: jax.jit(lambda p, x: x + 1, keep_unused=True)(p, x),
        "empty": lambda: jax.jit(lambda p: p * 2)(jax.device_put(np.zeros((0, 2), np.float32), h)),
        "gradient": lambda: jax.grad(lambda p: (jax.device_put(p, Device) ** 2).sum())(p),
        "scan": lambda: jax.jit(lambda x, m: jax.lax.scan(streamed, x, m))(x, m),
        "branch": lambda: jax.jit(lambda i, p: jax.lax.cond(i > 0, lambda v: v + 1, lambda v: v, jax.device_put(p, d)))(
            jax.device_put(1, d), p),
        "vmap": lambda: jax.vmap(lambda v: jax.device_put(v, Device) * 2)(m),
        "compute_on": lambda: jax.jit(lambda x: on_host(x) + 1)(x),
        "compute_on the host": lambda: jax.jit(on_host)(p),
        "offloaded names": lambda: offloading(names),
        "adam": lambda: jax.jit(adam)(x, (p, p)),
    }

def described(function):
    leaves = jax.tree.leaves(function())
    return [(leaf.sharding.memory_kind, leaf.dtype.name, np.asarray(leaf).round(5).tolist()) for leaf in leaves]

ours, theirs = cases_on(jax.devices("mydev")[0]), cases_on(jax.devices("cpu")[0])
results = {}
for name, function in ours.items():
    expected = described(theirs[name])
    try:
        actual = described(function)
        results[name] = "" if actual == expected else f"{actual} instead of {expected}"
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
print(json.dumps(results))
"""

DONATION = """
device = jax.devices("mydev")[0]
d, h = SingleDeviceSharding(device), SingleDeviceSharding(device, memory_kind="pinned_host")
x = jax.device_put(np.arange(4.0, dtype=np.float32), d)
p = jax.device_put(x, h)
doubled = jax.jit(lambda p: p * 2, out_shardings=h, donate_argnums=0)
result = doubled(p)
print(p.is_deleted(), result.sharding.memory_kind, np.asarray(result).tolist())

# JAX's CPU aborts here: the states are donated, and the results that have their shapes are on the host and the device.
def step(g, states):
    first, second = (0.5 * jax.device_put(state, Device) + g for state in states)
    return first + second, [jax.device_put(state, Host) for state in (first, second)]
states = [jax.device_put(x, h), jax.device_put(x + 1, h)]
update, news = jax.jit(step, donate_argnums=1)(x, states)
print([state.is_deleted() for state in states], np.asarray(update).tolist())
print([(new.sharding.memory_kind, np.asarray(new).tolist()) for new in news])

kept = jax.device_put(x, h)
view = np.asarray(kept)
print(np.asarray(jax.jit(lambda p: p * 2, out_shardings=h)(kept)).tolist(), kept.is_deleted(), view.tolist())
compiled = jax.jit(lambda x, p: (x + 1, p * 2), out_shardings=(d, h)).lower(x, kept).compile()
print(compiled.runtime_executable().get_output_memory_kinds(), [s.memory_kind for s in compiled.input_shardings[0]])
memory = compiled.memory_analysis()
print(memory.argument_size_in_bytes, memory.host_argument_size_in_bytes, memory.host_output_size_in_bytes)
print("host p1: f32[4]) -> (t" in pjrt_mydev.program_text(compiled))
"""

SEVERAL = """
devices = jax.devices("mydev")
mesh = Mesh(np.array(devices), ("d",))
on_device, on_host = NamedSharding(mesh, P("d")), NamedSharding(mesh, P("d"), memory_kind="pinned_host")
whole = NamedSharding(mesh, P(), memory_kind="pinned_host")
n = 2 * len(devices)
x = jax.device_put(np.arange(n, dtype=np.float32), on_device)
p = jax.device_put(x, on_host)
cases = {
    "put": jax.jit(lambda x: jax.device_put(x * 2, on_host))(x),
    "out_shardings": jax.jit(lambda x: x * 2, out_shardings=on_host)(x),
    "to the device": jax.jit(lambda p: jax.device_put(p, on_device) * 2)(p),
    "eager": p * 2,
    "gathered": jax.jit(lambda p: jax.device_put(p, on_device) * 2, out_shardings=whole)(p),
    "shard_map": jax.jit(jax.shard_map(lambda v: v * 2, mesh=mesh, in_specs=P("d"), out_specs=P("d")),
                         out_shardings=on_host)(x),
}
print(json.dumps({name: (y.sharding.memory_kind, np.asarray(y).tolist() == (np.arange(n) * 2).tolist())
                  for name, y in cases.items()}))
"""

# Eight layers of 16 MiB on a device of 64 MiB.
STREAMED = """
device = jax.devices("mydev")[0]
h = SingleDeviceSharding(device, memory_kind="pinned_host")
weights = [jax.device_put(np.full((2048, 2048), 1 / 2048, np.float32), h) for _ in range(8)]
@jax.jit
def network(x, weights):
    for w in weights:
        x = x @ jax.device_put(w, Device)
    return x
print(np.asarray(network(jnp.ones((1, 2048)), weights))[0, :2].tolist())
@jax.jit
def made(x):
    return [jax.device_put(jnp.sin(x + i), Host) for i in range(8)]
x = jnp.zeros((2048, 2048))
print([abs(float(np.asarray(y)[0, 0]) - float(np.sin(i))) < 1e-6 for i, y in enumerate(made(x))])
"""


@pytest.mark.slow
@pytest.mark.parametrize("driver", [*DRIVERS, "host:remote,async"])
def test_programs_know_memories_as_the_cpu_does(driver: str) -> None:
    require("jax", "jax==0.10.2")
    results = json.loads(output_of(START + CASES, driver).splitlines()[-1])
    assert {name: problem for name, problem in results.items() if problem} == {}
    assert len(results) == 22


@pytest.mark.parametrize("driver", ["host", "host:remote,async"])
def test_memories_are_described_and_donated(driver: str) -> None:
    require("jax", "jax==0.10.2")
    assert output_of(START + DONATION, driver).splitlines() == [
        "True pinned_host [0.0, 2.0, 4.0, 6.0]",
        "[True, True] [0.5, 3.5, 6.5, 9.5]",
        "[('pinned_host', [0.0, 1.5, 3.0, 4.5]), ('pinned_host', [0.5, 2.0, 3.5, 5.0])]",
        "[0.0, 2.0, 4.0, 6.0] False [0.0, 1.0, 2.0, 3.0]",
        "[['device', 'pinned_host']] ['device', 'pinned_host']",
        "16 16 16",
        "True",
    ]


@pytest.mark.parametrize("driver", ["host:devices=4", "host:remote,async,devices=2"])
def test_parts_of_arrays_are_in_memory_of_the_host(driver: str) -> None:
    require("jax", "jax==0.10.2")
    results = json.loads(output_of(START + SEVERAL, driver).splitlines()[-1])
    assert results.pop("to the device") == ["device", True]
    assert len(results) == 5
    assert {name: result for name, result in results.items() if result != ["pinned_host", True]} == {}


@pytest.mark.parametrize("driver", ["host:memory=64M", "host:remote,memory=64M"])
def test_weights_and_results_need_no_room_on_the_device_beyond_their_use(driver: str) -> None:
    require("jax", "jax==0.10.2")
    assert output_of(START + STREAMED, driver).splitlines() == ["[1.0, 1.0]", str([True] * 8)]
