"""Programs of JAX on the devices of several processes, which `jax.distributed` brings together."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from subprocess import Popen
from typing import Any

import numpy as np
import pytest

from pjrt.clients import require, under_test
from support.checkout import environment
from support.two_hosts import ADDRESSES, Host, two_hosts

START = """
import json, os, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pjrt_mydev
rank, count = int(sys.argv[1]), int(sys.argv[2])
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
if count > 1: jax.distributed.initialize(sys.argv[3], num_processes=count, process_id=rank)
mesh = Mesh(np.array(jax.devices()), ("x",))
def on(mesh, *specs): return NamedSharding(mesh, P(*specs))
def given(x, sharding): return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])
def shards(f, into=P("x"), out=P("x")):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=into, out_specs=out, check_vma=False))
def print_error_of(f):
    try: f()
    except jax.errors.JaxRuntimeError as error: print(error, flush=True)
"""

PROGRAMS = """
grid = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
def shown(x): return np.asarray(multihost_utils.process_allgather(x, tiled=True)).tolist()
results = {}
x = np.arange(16, dtype=np.float32).reshape(4, 4) / 3
rows, tiles = given(x, on(mesh, "x")), given(x, on(grid, "a", "b"))
results["psum"] = shown(shards(lambda x: lax.psum(x, "x"), out=P())(rows))
results["pmax"] = shown(shards(lambda x: lax.pmax(x, "x"), out=P())(rows))
results["all_gather"] = shown(shards(lambda x: lax.all_gather(x, "x", tiled=True) * 2, out=P())(rows))
results["psum_scatter"] = shown(shards(lambda x: lax.psum_scatter(x[0], "x", tiled=True))(rows))
results["all_to_all"] = shown(shards(lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), out=P(None, "x"))(rows))
results["ppermute"] = shown(shards(lambda x: lax.ppermute(x, "x", [(0, 1), (1, 2), (2, 3)]))(rows))
results["axis_index"] = shown(shards(lambda x: x + lax.axis_index("x"))(rows))
results["in_a_loop"] = shown(shards(lambda x: lax.fori_loop(0, 5, lambda i, a: lax.psum(a, "x") / 4 + i, x))(rows))
over = lambda axis: jax.jit(jax.shard_map(
    lambda x: x * lax.psum(x, axis), mesh=grid, in_specs=P("a", "b"), out_specs=P("a", "b")))
results["groups"] = [shown(over(axis)(tiles)) for axis in "ab"]
results["jit"] = shown(jax.jit(lambda x: x @ x.T, out_shardings=on(grid, "b"))(tiles))
results["sum"] = shown(jax.jit(lambda x: jnp.sin(x).sum())(tiles))
results["int64"] = shown(shards(lambda x: lax.psum(x.astype(jnp.int32), "x"), out=P())(rows))
results["twice"] = [shown(shards(lambda x: lax.psum(x, "x"), out=P())(rows * i)) for i in range(3)]
results["local"] = shown(jax.make_array_from_process_local_data(on(mesh, "x"), x[rank * 4 // count:][:4 // count]))

w, b = given(np.full((4, 3), 0.1, np.float32), on(mesh)), given(np.zeros(3, np.float32), on(mesh))
batch, labels = given(np.cos(np.arange(32, dtype=np.float32)).reshape(8, 4), on(mesh, "x")), np.arange(8) % 3
labels = given(labels, on(mesh, "x"))
@jax.jit
def step(w, b, batch, labels):
    def loss(w, b): return -jax.nn.log_softmax(batch @ w + b)[jnp.arange(8), labels].mean()
    value, (dw, db) = jax.value_and_grad(loss, (0, 1))(w, b)
    return w - dw, b - db, value
results["training"] = []
for _ in range(3):
    w, b, value = step(w, b, batch, labels)
    results["training"].append(shown(value))
print(json.dumps(results))
"""

#: Processes, and the driver of each: four devices in all.
JOBS = {"two": (2, "host:devices=2"), "remote": (2, "host:remote,async,guarded,devices=2"), "four": (4, "host:async")}


@contextlib.contextmanager
def started(
    code: str, count: int, coordinator: str, hosts: Sequence[Host] = (), **variables: str
) -> Iterator[list[Popen[str]]]:
    """Processes that run the code, each on its host, if there are any, and that are over at the end."""
    processes = []
    for rank in range(count):
        prefix = hosts[rank].prefix if hosts else []
        own = {"MYDEV_PROCESS_ADDRESS": ADDRESSES[rank]} if hosts else {}
        processes.append(
            Popen(
                [*prefix, sys.executable, "-c", START + code, str(rank), str(count), coordinator],
                env=environment(OMP_WAIT_POLICY="passive", **own, **variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()


def run(code: str, count: int = 2, driver: str = "host", **variables: str) -> list[subprocess.CompletedProcess[str]]:
    """Runs the code in so many processes, which are over at the end."""
    require("jax", "jax==0.10.2")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with started(code, count, f"127.0.0.1:{port}", MYDEV_DRIVER=under_test(driver), **variables) as processes:
        outputs = [process.communicate(timeout=300) for process in processes]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(processes, outputs, strict=True)
    ]


def outputs(code: str, count: int = 2, driver: str = "host", **variables: str) -> list[str]:
    results = run(code, count, driver, **variables)
    for result in results:
        assert result.returncode == 0, result.stdout + result.stderr
    return [result.stdout for result in results]


@cache
def results_of(count: int, driver: str) -> list[dict[str, Any]]:
    return [json.loads(output) for output in outputs(PROGRAMS, count, driver)]


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_programs_are_as_on_devices_of_one_process(job: str) -> None:
    (expected,) = results_of(1, "host:devices=4")
    for actual in results_of(*JOBS[job]):
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(actual[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_processes_have_the_same_bits(job: str) -> None:
    first, *others = results_of(*JOBS[job])
    assert all(other == first for other in others)


@pytest.mark.slow
def test_four_processes_of_two_devices_each() -> None:
    code = """
x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
rows = given(x, on(mesh, "x"))
def same(actual, expected):
    np.testing.assert_allclose(multihost_utils.process_allgather(actual, tiled=True), expected, rtol=1e-5, atol=1e-6)
same(shards(lambda x: lax.psum(x, "x"), out=P())(rows), x.sum(0, keepdims=True))
same(shards(lambda x: lax.psum_scatter(x[0], "x", tiled=True))(rows), x.sum(0))
same(shards(lambda x: lax.all_gather(x, "x", tiled=True) * 2, out=P())(rows), x * 2)
same(shards(lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), out=P(None, "x"))(rows), x)
same(shards(lambda x: lax.ppermute(x, "x", [(i, (i + 3) % 8) for i in range(8)]))(rows), np.roll(x, 3, 0))
pairs = [[0, 7], [1, 6], [2, 5], [3, 4]]  # of two processes each, but for the last
same(shards(lambda x: lax.psum(x, "x", axis_index_groups=pairs))(rows), x + x[::-1])
print(len(jax.devices()), len(jax.local_devices()))
"""
    assert outputs(code, 4, "host:async,devices=2") == ["8 2\n"] * 4


def test_each_process_has_its_own_devices() -> None:
    code = """
print([(d.id, d.process_index, d.local_hardware_id) for d in jax.devices()])
print(jax.local_devices(), jax.process_index(), jax.process_count(), jax.device_count(), jax.local_device_count())
print(jnp.arange(3).devices(), (jnp.ones(2) + rank).tolist())
"""
    first, second = outputs(code, driver="host:devices=2")
    assert first.splitlines() == [
        "[(0, 0, 0), (1, 0, 1), (2, 1, None), (3, 1, None)]",
        "[mydev:0, mydev:1] 0 2 4 2",
        "{mydev:0} [1.0, 1.0]",
    ]
    assert second.splitlines() == [
        "[(0, 0, None), (1, 0, None), (2, 1, 0), (3, 1, 1)]",
        "[mydev:2, mydev:3] 1 2 4 2",
        "{mydev:2} [2.0, 2.0]",
    ]


PSUM = """
rows = given(np.ones((count, 4), np.float32), on(mesh, "x"))
total = shards(lambda x: lax.psum(x, "x"), out=P())
"""


def test_a_process_that_dies_is_named() -> None:
    code = (
        PSUM
        + """
total(rows).block_until_ready()
if rank == 1: os._exit(3)
print_error_of(lambda: total(rows).block_until_ready())
print_error_of(lambda: total(rows).block_until_ready())
os._exit(0)
"""
    )
    first, second = run(code)
    assert (first.returncode, second.returncode) == (0, 3), first.stderr
    lines = [line for line in first.stdout.splitlines() if line.startswith("UNAVAILABLE: ")]
    assert len(lines) == 2, first.stdout + first.stderr
    assert all("process 1 of 2 (" in line and "has ended" in line for line in lines)


@pytest.mark.slow
def test_processes_that_run_different_programs_say_so() -> None:
    code = (
        PSUM
        + """
if rank == 1: total = shards(lambda x: lax.pmax(x, "x"), out=P())
print_error_of(lambda: total(rows).block_until_ready())
multihost_utils.sync_global_devices("both have reported")
"""
    )
    for rank, output in enumerate(outputs(code)):
        assert output.startswith("FAILED_PRECONDITION: "), output
        assert f"and device {1 - rank}, of process {1 - rank} of 2 (" in output
        assert "all processes must run the same programs in the same order" in output


@pytest.mark.slow
def test_a_process_that_does_not_come_is_waited_for_as_long_as_one_says() -> None:
    code = (
        PSUM + "if rank == 1: print_error_of(lambda: total(rows).block_until_ready())\nelse: time.sleep(4)\nos._exit(0)"
    )
    _, second = outputs(code, MYDEV_PROCESS_TIMEOUT="1")
    assert second.startswith("DEADLINE_EXCEEDED: "), second
    assert "device 0, of process 0 of 2 (" in second
    assert "did not come to stablehlo.all_reduce" in second


def test_a_failure_of_one_process_reaches_the_others() -> None:
    code = """
def failing(x):
    if rank == 1: raise ValueError("no more data")
    return x
def body(x): return lax.psum(jax.pure_callback(failing, jax.ShapeDtypeStruct(x.shape, x.dtype), x), "x")
rows = given(np.ones((count, 4), np.float32), on(mesh, "x"))
print_error_of(lambda: shards(body, out=P())(rows).block_until_ready())
print(multihost_utils.process_allgather(rank).tolist())
"""
    for output in outputs(code):
        assert "no more data" in output
        assert output.splitlines()[-1] == "[0, 1]"


def test_work_that_nobody_waits_for_is_done_at_the_end() -> None:
    code = PSUM + "time.sleep(rank)\nfor _ in range(20): last = total(rows)\n"
    assert outputs(code, driver="host:async") == ["", ""]


# --- arrays of other processes ----------------------------------------------------------------------------------------

PUT = """
per = jax.device_count() // count
def devices_of(process): return NamedSharding(Mesh(np.array(jax.devices()[per * process:][:per]), ("x",)), P("x"))
def known(value, sharding):  # of an array that another process has
    return jax.make_array_from_single_device_arrays(value.shape, sharding, [], dtype=value.dtype)
def put(value, here, there, process):  # from the process to the next
    x = jax.device_put(value, here) if rank == process else known(value, here)
    return jax.device_put(x, there)
"""


@pytest.mark.parametrize("job", [pytest.param(job, marks=pytest.mark.slow if job != "remote" else ()) for job in JOBS])
def test_arrays_go_to_devices_of_other_processes_and_back(job: str) -> None:
    code = (
        PUT
        + """
first, second = devices_of(0), devices_of(1)
values = [np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(1 << 20, dtype=np.int8), np.zeros((0, 3), bool),
          np.arange(4) * (1 + 2j), np.arange(6.0).astype(jnp.bfloat16)]
for value in values:
    value = np.asarray(jnp.asarray(value))  # 32 bits
    moved = put(value, first, second, 0)
    if rank == 1: print(moved.sharding == second, (np.asarray(moved) == value).all())
    doubled = jax.jit(lambda x: x + x)(moved) if rank == 1 else known(value, second)
    back = jax.device_put(doubled, first)
    if rank == 0: print(back.sharding == first, (np.asarray(back) == value + value).all())
"""
    )
    for rank, output in enumerate(outputs(code, *JOBS[job])):
        assert output.splitlines() == (["True True"] * 5 if rank < 2 else [])


def test_a_process_learns_that_an_array_of_another_failed() -> None:
    code = (
        PUT
        + """
def failing(x): raise ValueError("no more data")
here, there = devices_of(0), devices_of(1)
value = np.ones(2, np.float32)
x = jax.device_put(value, here) if rank == 0 else known(value, here)
if rank == 0: x = jax.jit(lambda x: jax.pure_callback(failing, jax.ShapeDtypeStruct(x.shape, x.dtype), x))(x)
y = jax.device_put(x, there)
if rank == 1: print_error_of(lambda: y.block_until_ready())
moved = put(value + 1, here, there, 0)
if rank == 1: print(moved.tolist())
"""
    )
    _, second = outputs(code, driver="host:async")
    assert second.startswith("ABORTED: device 0, of process 0 of 2 ("), second
    assert "no more data" in second
    assert second.splitlines()[-1] == "[2.0, 2.0]"


def test_an_array_that_is_not_sent_is_waited_for_as_long_as_one_says() -> None:
    code = (
        PUT
        + """
value = np.ones(2, np.float32)
if rank == 1: print_error_of(lambda: put(value, devices_of(0), devices_of(1), 0).block_until_ready())
else: time.sleep(4)
os._exit(0)
"""
    )
    _, second = outputs(code, MYDEV_PROCESS_TIMEOUT="1")
    assert second.startswith("DEADLINE_EXCEEDED: device 0, of process 0 of 2 ("), second
    assert "did not send an array to device 1 within 1 seconds" in second


def test_data_for_a_device_of_another_process_is_refused() -> None:
    code = """
try: jax.device_put(np.ones(2), jax.devices()[1 - rank])
except Exception as error: print(type(error).__name__)
print((jnp.ones(2) + 1).tolist())
"""
    for output in outputs(code):
        assert output.splitlines()[-1] == "[2.0, 2.0]"


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 5], ids=["whole link", "5 % lost"])
def test_two_hosts_compute_together_until_the_link_is_cut(lost: int) -> None:
    """A cut link tells nobody, so that the time-out ends the wait."""
    require("jax", "jax==0.10.2")
    code = (
        PSUM
        + """
print(np.asarray(total(rows).addressable_shards[0].data).tolist(), flush=True)
sys.stdin.readline()
print_error_of(lambda: total(rows).block_until_ready())
os._exit(0)
"""
    )
    coordinator = f"{ADDRESSES[0]}:29400"
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(two_hosts())
        for host in hosts if lost else ():
            host.lose(lost)
        processes = stack.enter_context(started(code, 2, coordinator, hosts, MYDEV_PROCESS_TIMEOUT="20"))
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "[[2.0, 2.0, 2.0, 2.0]]\n", process.communicate()[1]
        hosts[1].cut()
        for rank, process in enumerate(processes):
            output, errors = process.communicate("\n", timeout=120)
            assert f"process {1 - rank} of 2 (" in output, output + errors
            assert output.startswith(("UNAVAILABLE: ", "DEADLINE_EXCEEDED: ")), output + errors
