"""Executables of JAX for other processes: its compilation cache, and executables that a program writes itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pjrt.clients import output_of, require

START = """
import pickle, sys, warnings
import jax, jax.numpy as jnp, numpy as np
from jax._src import monitoring
from jax.experimental import serialize_executable
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
jax.config.update("jax_default_matmul_precision", "highest")
directory = DIRECTORY
events = []
monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))

def function(x, y):
    total = jax.lax.fori_loop(0, 5, lambda i, s: s + x[i], jnp.zeros(x.shape[1]))
    return {"product": x @ y, "loop": total, "sort": jnp.sort(x, axis=0), "fft": jnp.fft.fft(x).real,
            "svd": jnp.linalg.svd(x, compute_uv=False), "cbrt": jnp.cbrt(x)}

random = np.random.RandomState(0)
arguments = random.randn(5, 6).astype(np.float32), random.randn(6, 3).astype(np.float32)
def check(results, device=jax.devices("mydev")[0]):
    expected = jax.jit(function)(*jax.device_put(arguments, jax.devices("cpu")[0]))
    for name, result in results.items():
        assert result.devices() == {device}, name
        np.testing.assert_allclose(result, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
"""

CACHED = """
jax.config.update("jax_compilation_cache_dir", directory)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
results = jax.jit(function)(*jax.device_put(arguments, jax.devices("mydev")[0]))
print("hits", events.count("cache_hits"), "misses", events.count("cache_misses"))
check(results)
"""


def start(directory: Path) -> str:
    require("jax", "jax==0.10.2")
    return START.replace("DIRECTORY", repr(str(directory)))


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_a_second_process_takes_programs_from_the_cache(tmp_path: Path, driver: str) -> None:
    code = start(tmp_path) + CACHED
    assert output_of(code, driver).splitlines()[-1] == "hits 0 misses 1"
    assert output_of(code, driver).splitlines()[-1] == "hits 1 misses 0"


def test_what_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    code = start(tmp_path) + CACHED
    output_of(code)
    for entry in tmp_path.glob("jit_function-*-cache"):
        entry.write_bytes(entry.read_bytes()[:-100])
    assert output_of(code).splitlines()[-1] == "hits 0 misses 1"


def test_a_callback_of_another_process_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    code = (
        start(tmp_path)
        + CACHED
        + """
factor = float(FACTOR)
scaled = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(a) * factor, jax.typeof(x), x))
print(scaled(jax.device_put(np.float32(1.5), jax.devices("mydev")[0])))
"""
    )
    assert output_of(code.replace("FACTOR", "2")).splitlines()[-1] == "3.0"
    assert output_of(code.replace("FACTOR", "4")).splitlines()[-1] == "6.0"


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_an_executable_is_written_and_loaded_in_another_process(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "executable"
    write = """
placed = jax.device_put(arguments, jax.devices("mydev")[0])
with open(directory, "wb") as file:
    pickle.dump(serialize_executable.serialize(jax.jit(function).lower(*placed).compile()), file)
print(f"{events.count('compile_requests_use_cache')} by the cache")
"""
    load = """
with open(directory, "rb") as file:
    loaded = serialize_executable.deserialize_and_load(
        *pickle.load(file), backend="mydev", execution_devices=jax.devices("mydev")[:1])
check(loaded(*jax.device_put(arguments, jax.devices("mydev")[0])))
print("same")
"""
    output_of(start(path) + write, driver)
    assert output_of(start(path) + load, driver).splitlines()[-1] == "same"


def test_damaged_executables_are_refused(tmp_path: Path) -> None:
    code = (
        start(tmp_path)
        + """
client = jax.devices("mydev")[0].client
placed = jax.device_put(arguments, jax.devices("mydev")[0])
written = client.serialize_executable(jax.jit(function).lower(*placed).compile().runtime_executable())
middle = len(written) // 2
changed = written[:middle] + bytes([written[middle] ^ 1]) + written[middle + 1 :]
refused = 0
for damaged in (b"", b"nothing of ours", written[:-1], written[: len(written) // 2], changed):
    try:
        client.deserialize_executable(damaged, jax.devices("mydev")[:1])
    except jax.errors.JaxRuntimeError as error:
        assert "executable" in str(error).lower(), error
        refused += 1
print("refused", refused)
check(jax.jit(function)(*placed))
"""
    )
    assert output_of(code).splitlines()[-1] == "refused 5"
