"""JAX on the PJRT plugin: it is found, holds arrays of all dtypes in all memories, and says what it cannot do."""

from __future__ import annotations

import pytest

from pjrt.clients import DRIVERS, output_of, require, run_client

#: This code does what the entry point does where the package is installed.
START = """
import sys
import jax, numpy as np, ml_dtypes
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_enable_x64", True)
devices = jax.devices(pjrt_mydev.device_name())
"""

ROUND_TRIPS = """
names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
         "float64", "complex64", "complex128"]
narrow = ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e4m3fnuz",
          "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"]
dtypes = [np.dtype(name) for name in names] + [np.dtype(getattr(ml_dtypes, name)) for name in narrow]
random = np.random.RandomState(0)
for device in devices:
    for dtype in dtypes:
        for sizes in [(), (0,), (3,), (4, 5), (2, 3, 4)]:
            array = random.randint(0, 2, size=sizes).astype(dtype)
            for view in (array, array.T, array[::-1] if sizes else array, array[..., ::2] if sizes else array):
                returned = np.asarray(jax.device_put(view, device))
                assert returned.dtype == dtype, (dtype, sizes)
                assert returned.shape == view.shape, (dtype, sizes)
                assert returned.tobytes() == view.tobytes(), (dtype, sizes, view.strides)
print("same")
"""

MEMORIES = """
array = np.random.RandomState(0).randn(300, 400).astype(np.float32)
x = jax.device_put(array, devices[0])
for device in devices:
    for kind in ("device", "pinned_host", "unpinned_host"):
        there = jax.device_put(x, jax.sharding.SingleDeviceSharding(device, memory_kind=kind))
        assert there.devices() == {device}
        assert there.sharding.memory_kind == kind
        np.testing.assert_array_equal(np.asarray(there), array)
        back = jax.device_put(there, jax.sharding.SingleDeviceSharding(devices[0], memory_kind="device"))
        np.testing.assert_array_equal(np.asarray(back), array)
print("same")
"""

SHARDS = """
array = np.arange(8 * len(devices), dtype=np.int32).reshape(len(devices) * 2, 4)
mesh = jax.sharding.Mesh(np.array(devices), ("x",))
x = jax.device_put(array, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
np.testing.assert_array_equal(np.asarray(x), array)
for i, shard in enumerate(x.addressable_shards):
    np.testing.assert_array_equal(np.asarray(shard.data), array[2 * i : 2 * i + 2])
print(len(x.addressable_shards))
"""

STATISTICS = """
before = devices[0].memory_stats()["bytes_in_use"]
x = jax.device_put(np.zeros((1 << 20) + 1, np.uint8)[1:], devices[0])  # not aligned: it is copied
x.block_until_ready()
assert devices[0].memory_stats()["bytes_in_use"] - before >= 1 << 20
x.delete()
assert x.is_deleted()
assert devices[0].memory_stats()["bytes_in_use"] == before
print("freed")
"""


@pytest.fixture(autouse=True)
def _needs_jax() -> None:
    require("jax", "jax==0.10.2")


@pytest.mark.parametrize("driver", DRIVERS)
def test_arrays_of_all_dtypes_and_strides_come_back_as_they_went(driver: str) -> None:
    assert output_of(START + ROUND_TRIPS, driver) == "same\n"


@pytest.mark.parametrize("driver", DRIVERS)
def test_arrays_are_copied_between_memories_and_devices(driver: str) -> None:
    assert output_of(START + MEMORIES, driver) == "same\n"


@pytest.mark.parametrize(("driver", "shards"), [("host:devices=4", "4"), ("host:async,devices=2", "2")])
def test_arrays_are_sharded_over_devices(driver: str, shards: str) -> None:
    assert output_of(START + SHARDS, driver).strip() == shards


def test_devices_are_listed_by_their_names() -> None:
    assert output_of(START + "print(devices)", "host:devices=2") == "[mydev:0, mydev:1]\n"


def test_memory_is_freed_when_an_array_is_deleted() -> None:
    assert output_of(START + STATISTICS) == "freed\n"


def test_neither_torch_nor_its_package_is_imported() -> None:
    code = START + "print([name for name in ('torch', 'torch_mydev') if name in sys.modules])"
    assert output_of(code) == "[]\n"


def test_the_cpu_stays_the_default() -> None:
    """The device computes what it is asked to; JAX's default is the platform of the highest priority."""
    assert output_of(START + "print(jax.default_backend())") == "cpu\n"


def test_a_driver_that_is_not_there_is_reported() -> None:
    result = run_client(START, "nowhere")
    assert result.returncode != 0
    assert "nowhere" in result.stderr


def test_arrays_may_live_until_the_interpreter_exits() -> None:
    code = START + "kept = [jax.device_put(np.ones(1000), device) for device in devices]\nprint('end')"
    assert output_of(code, "host:async,devices=2") == "end\n"


def test_the_plugin_is_registered_once() -> None:
    """The entry point of an installed package may register it, and calls by hand as well."""
    code = START + "pjrt_mydev.initialize(); pjrt_mydev.initialize(); print(len(jax.devices('mydev')))"
    result = run_client(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "1"
    assert "error" not in result.stderr


LARGE_CONSTANT = """
import os
jax.config.update("jax_default_device", devices[0])

def threads():  # OpenMP's have the name of the process, as the thread that starts them
    name = open("/proc/self/comm").read()
    return {task for task in os.listdir("/proc/self/task") if open(f"/proc/self/task/{task}/comm").read() == name}

x = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
jax.block_until_ready(jax.jit(lambda x: x @ x)(x))
before = threads()
jax.jit(lambda y: y + x).lower(x).compile()
print(sorted(threads() - before))
"""


def test_compiling_a_large_constant_starts_no_team_of_threads() -> None:
    """With one on the compiling thread besides, libgomp's teams sleep between regions: all that follows is slower."""
    require("jax", "jax==0.10.2")
    assert output_of(START + LARGE_CONSTANT, OMP_NUM_THREADS="2") == "[]\n"
