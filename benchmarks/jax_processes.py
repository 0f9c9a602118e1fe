"""Collectives of JAX over processes on the device, against those of JAX's own CPU backend (gloo), call by call, in the
same processes.

Two processes on this machine, and then four, run the same turns; the first prints its figures. Each one brings one
device of each kind.

Run from the repository: ``python benchmarks/jax_processes.py``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import jax
import numpy as np
from interleaved import Benchmark, compare_together, repeats_of
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import pjrt_mydev

COUNTS = (2, 4)
SIZES = {"1 KiB": 1 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20, "64 MiB": 64 << 20}

#: A process runs the function on its rows of an array that all of them hold. Results lie as the spec says.
COLLECTIVES: dict[str, tuple[Callable[[jax.Array], jax.Array], P]] = {
    "all_reduce": (lambda x: lax.pmax(x, "x"), P()),
    "all_gather": (lambda x: lax.all_gather(x, "x", tiled=True), P()),
    "reduce_scatter": (lambda x: lax.psum_scatter(x[0], "x", tiled=True), P("x")),
}


def collective(name: str, nbytes: int, devices: list[jax.Device]) -> Callable[[], object]:
    mesh = Mesh(np.array(devices), ("x",))
    function, results = COLLECTIVES[name]
    mapped = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=results, check_vma=False))
    shape, sharding = (len(devices), nbytes // 4), NamedSharding(mesh, P("x"))
    operand = jax.make_array_from_callback(shape, sharding, lambda index: np.ones((1, shape[1]), np.float32))
    return lambda: jax.block_until_ready(mapped(operand))


def begin_together() -> None:
    multihost_utils.sync_global_devices("turn")


def run(rank: int, count: int, port: int) -> None:
    pjrt_mydev.initialize()
    device_name = pjrt_mydev.device_name()
    jax.config.update("jax_platforms", f"{device_name},cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=count, process_id=rank)
    if rank > 0:  # the table is the first one's
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    benchmark = Benchmark("collectives of JAX", lanes=("jax cpu", device_name))
    for name in COLLECTIVES:
        for amount, nbytes in SIZES.items():
            row = f"{name}, {amount}, {count} processes"
            if benchmark.wants(row):
                lanes = collective(name, nbytes, jax.devices("cpu")), collective(name, nbytes, jax.devices(device_name))
                benchmark.add(compare_together(row, lanes, repeats_of(nbytes), benchmark.rounds, begin_together))
    benchmark.print_mean()


def main() -> None:
    if "--rank" in sys.argv:
        place = sys.argv.index("--rank")
        rank, count, port = map(int, sys.argv[place + 1 : place + 4])
        del sys.argv[place : place + 4]
        return run(rank, count, port)
    for count in COUNTS:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        commands = [[sys.executable, *sys.argv, "--rank", str(rank), str(count), str(port)] for rank in range(count)]
        processes = [subprocess.Popen(command) for command in commands]
        for process in processes:
            process.wait()
    return None


if __name__ == "__main__":
    main()
