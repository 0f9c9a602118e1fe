"""Mistakes of JAX programs: a clear error, nothing lost, the next call works, and never an abort.

test_stablehlo_reader.py and the googletests of the reader and the lowering test programs that are wrong themselves.
"""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest

from pjrt.clients import output_of, require, run_client

START = """
import gc, json, os, sys
import jax, jax.numpy as jnp, numpy as np
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
x = jnp.ones(3)
big = jnp.ones((300, 300)) / 300
long = jax.jit(lambda a: jax.lax.fori_loop(0, 200, lambda i, b: b @ a, a))
results = {}
def problem(function):
    try:
        return np.asarray(function()).tolist()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""
END = "\nprint(json.dumps(results))"

WRONG_CALLS = """
two = jax.jit(lambda a, b: a + b).lower(x, x).compile().runtime_executable()
donating = jax.jit(lambda a: a * 2, donate_argnums=0)
donated, deleted, twice = jnp.ones(3), jnp.ones(3), jnp.ones(3)
donating(donated)
deleted.delete()
loaded = jax.jit(lambda a: a + 1).lower(x).compile()
def fails(a): raise ValueError("no luck")
handler = lambda: jax.jit(lambda a: jax.pure_callback(fails, jax.ShapeDtypeStruct((3,), jnp.float32), a))(x)
cases = {
    "count": lambda: two.execute_sharded([x]),
    "shape": lambda: two.execute_sharded([x, jnp.ones(4)]),
    "type": lambda: two.execute_sharded([x, jnp.ones(3, jnp.int32)]),
    "donated": lambda: donating(donated),
    "donated, read": lambda: donated,
    "deleted": lambda: donating(deleted),
    "donated twice": lambda: jax.jit(lambda a, b: a + b, donate_argnums=0)(twice, twice),
    "memory": lambda: jnp.ones(1 << 38),
    "memory of a program": lambda: jax.jit(lambda a: jnp.sort(jnp.broadcast_to(a[:, None], (3, 1 << 30))))(x),
    "handler": handler,
    "option": lambda: jax.jit(lambda a: a + 1).lower(x).compile(compiler_options={"no_such": 1}),
    "option of jit": lambda: jax.jit(lambda a: a + 1, compiler_options={"no_such": 1})(x),
    "one of several options": lambda: jax.jit(lambda a: a + 1, compiler_options={
        "xla_embed_ir_in_executable": True, "optimization_level": 19, "no_such": "high"})(x),
    "options of XLA": lambda: jax.jit(lambda a: a + 1, compiler_options={"xla_embed_ir_in_executable": True})(x),
}
for name, case in cases.items():
    results[name] = problem(case)
    results[f"{name}, next"] = problem(lambda: loaded(x))
"""

EXPECTED = {
    "count": "JaxRuntimeError: INVALID_ARGUMENT: 'jit__lambda' takes 2 arguments, and 1 are given",
    "shape": "JaxRuntimeError: INVALID_ARGUMENT: argument 1 of 'jit__lambda' is f32[4] in device of mydev:0",
    "type": "JaxRuntimeError: INVALID_ARGUMENT: argument 1 of 'jit__lambda' is s32[3] in device of mydev:0, and f32[3]",
    "donated": "",  # the plugin's in JAX 0.10, JAX's own in 0.12
    "donated, read": "RuntimeError: Array has been deleted",
    "deleted": "RuntimeError: Array has been deleted",
    "donated twice": "",  # JAX's or the plugin's
    "memory": "JaxRuntimeError: RESOURCE_EXHAUSTED: out of memory on mydev:0: tried to allocate 1.00 TiB",
    "memory of a program": "JaxRuntimeError: RESOURCE_EXHAUSTED: ",
    "handler": "JaxRuntimeError: INTERNAL: ",
    "option": "JaxRuntimeError: INVALID_ARGUMENT: No such compile option: 'no_such'",
    "option of jit": "JaxRuntimeError: INVALID_ARGUMENT: No such compile option: 'no_such'",
    "one of several options": "JaxRuntimeError: INVALID_ARGUMENT: No such compile option: 'no_such'",
    "options of XLA": "[2.0, 2.0, 2.0]",
}

ODD_ENDS = """
from jax._src.lib import xla_client
from jax.extend.backend import clear_backends
other = xla_client.make_c_api_client("mydev")
results["two clients"] = [len(client.devices()) for client in (other, x.device.client)]
del other
gc.collect()
results["after the second"] = problem(lambda: x + 1)
pending, executable = long(big), long.lower(big).compile()
clear_backends()
del executable
gc.collect()
results["after all"] = problem(lambda: np.round(np.asarray(pending)[0, 0] * 300))
results["a new client"] = problem(lambda: jnp.ones(3) + 1)
"""

FORK = """
float(x.sum())
child = os.fork()
if child == 0:
    print(problem(lambda: jnp.ones(3) + 1), flush=True)
    os._exit(0)
results["child"] = os.waitpid(child, 0)[1]
results["parent"] = problem(lambda: x + 1)
"""


@pytest.fixture(autouse=True)
def _jax() -> None:
    require("jax", "jax==0.10.2")


@pytest.mark.parametrize("driver", ["host:memory=1G", "host:memory=1G,remote,async,guarded"])
def test_wrong_calls_are_reported_and_harm_nobody(driver: str) -> None:
    results = json.loads(output_of(START + WRONG_CALLS + END, driver).splitlines()[-1])
    assert {name: str(results[name])[: len(text)] for name, text in EXPECTED.items()} == EXPECTED
    asks_the_plugin = version("jax").startswith("0.10.")
    assert results["donated"].startswith(
        "ValueError: INVALID_ARGUMENT: argument 0 of 'jit__lambda', f32[3] in device of mydev:0, has been"
        if asks_the_plugin
        else "RuntimeError: Array has been deleted"
    )
    assert "Error: " in results["donated twice"]
    assert "ValueError: no luck" in results["handler"]
    assert [results[f"{name}, next"] for name in EXPECTED] == [[2, 2, 2]] * len(EXPECTED)


@pytest.mark.parametrize("driver", ["host", "host:async"])
def test_clients_come_and_go_in_any_order(driver: str) -> None:
    results = json.loads(output_of(START + ODD_ENDS + END, driver).splitlines()[-1])
    assert results["two clients"] == [1, 1]
    assert results["after the second"] == results["a new client"] == [2, 2, 2]
    assert results["after all"] == 1


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)", "raise SystemExit"])
def test_a_client_may_exit_with_work_pending(end: str) -> None:
    result = run_client(START + f"a, b = long(big), long(big)\nprint('given', flush=True)\n{end}\n", "host:async")
    assert (result.returncode, result.stdout) == (0, "given\n"), result.stderr


def test_a_forked_child_is_told_and_the_parent_goes_on() -> None:
    output = output_of(START + FORK + END).splitlines()
    assert "FAILED_PRECONDITION: cannot allocate device memory in a forked process" in output[0]
    assert json.loads(output[-1]) == {"child": 0, "parent": [2, 2, 2]}
