"""Random numbers of JAX: the bits that its CPU gives, and by which kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

RANDOM = Path(__file__).parent / "programs" / "jax_random.py"

PRELUDE = """
import jax, jax.numpy as jnp, pjrt_mydev
from jax import lax
pjrt_mydev.initialize()
jax.config.update("jax_platforms", pjrt_mydev.device_name() + ",cpu")
key = jax.random.PRNGKey(0)

def text_of(function, *arguments):
    return pjrt_mydev.program_text(jax.jit(function).lower(*arguments).compile())
"""


@pytest.fixture(autouse=True)
def jax_is_there() -> None:
    require("jax", "jax==0.10.2")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--original"]], ids=["partitionable", "original"])
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_all_bits_are_those_of_the_cpu(driver: str, options: list[str]) -> None:
    arguments = [str(RANDOM), *options]
    code = f"import runpy, sys; sys.argv = {arguments!r}; runpy.run_path({str(RANDOM)!r}, run_name='__main__')"
    report = json.loads(output_of(code, driver).splitlines()[-1])
    assert report["wrong"] == {}
    assert report["cases"] > 120


def test_a_hash_of_keys_is_one_launch_on_constant_counters() -> None:
    code = """
text = text_of(lambda k: jax.random.bits(k, (5, 3)), key)
print(text.count("launch"), text.count("launch mydev.threefry2x32"), text.count("launch mydev.bitwise_xor"))
"""
    assert output_of(PRELUDE + code).split() == ["2", "1", "1"]


def test_the_host_evaluates_nothing() -> None:
    code = """
draws = {
    "fold_in": lambda k: jax.random.fold_in(k, k[0]),
    "key": lambda k: jax.random.key_data(jax.random.key(k[0].astype(jnp.int32))),
    "permutation": lambda k: jax.random.permutation(k, 10),
    "categorical": lambda k: jax.random.categorical(k, jnp.zeros((64, 2))),
    "poisson": lambda k: jax.random.poisson(k, 4.0, (5,)),
    "gamma": lambda k: jax.random.gamma(k, 2.5, (5,)),
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (5,)),
    "randint": lambda k: jax.random.randint(k, (5,), -5, 100),
    "rng_bit_generator": lambda k: lax.rng_bit_generator(jnp.concatenate([k, k]), (7,), jnp.uint8),
    "population_count": lax.population_count,
    "clz": lax.clz,
    "shift": lambda k: lax.shift_right_logical(k, k),
    "cbrt": lambda k: jnp.cbrt(k.astype(jnp.float32)),
}
print(len(draws), [name for name, draw in draws.items() if 'host "stablehlo.' in text_of(draw, key)])
"""
    assert output_of(PRELUDE + code).split() == ["13", "[]"]


def test_devices_draw_with_their_keys() -> None:
    code = """
from jax.sharding import NamedSharding, PartitionSpec
mesh = jax.make_mesh((4,), ("x",))
keys = jax.random.bits(key, (8, 2))
draw = jax.vmap(lambda k: jax.random.bits(k, (300,)))
split = jax.device_put(keys, NamedSharding(mesh, PartitionSpec("x")))
launches = [line for line in text_of(draw, split).splitlines() if "launch mydev.threefry2x32" in line]
print(len(launches), "u32[2,300]" in launches[0])
print((jax.device_get(jax.jit(draw)(split)) == jax.device_get(jax.jit(draw)(keys))).all())
"""
    assert output_of(PRELUDE + code, "host:devices=4").split() == ["1", "True", "True"]
