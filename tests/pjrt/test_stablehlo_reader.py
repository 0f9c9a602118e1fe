"""The reader of StableHLO's bytecode and text agrees with jaxlib's: on each operator, on shardings, on JAX programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pjrt.jaxlib_programs import context, deserialized, normalized, printed, require, serialize
from pjrt.stablehlo_programs import programs

PROGRAMS = programs()
SHARDED = PROGRAMS.pop("sharded")
#: The newest version that is read, and the version that older clients write.
NEWEST = "1.13.0"
OLDEST = "1.0.0"
#: These programs use parts that StableHLO 1.0 does not have.
NOT_IN_OLDEST = {"all_reduce", "custom_call", "dot_general", "gather", "result_accuracy", "scatter", "send", "tan"}
#: Constants of small floats.
NOT_READ_AS_TEXT = {"constant"}


@pytest.fixture(autouse=True)
def _jaxlib() -> None:
    require("jaxlib")


def bytecode(text: str, version: str) -> bytes:
    from jaxlib.mlir import ir

    with context():
        return serialize(ir.Module.parse(text), version)


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytecode_is_what_jaxlib_reads(name: str, tmp_path: Path) -> None:
    program = bytecode(PROGRAMS[name], NEWEST)
    assert normalized(printed(program, tmp_path)) == deserialized(program)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NOT_IN_OLDEST])
def test_older_bytecode_is_what_jaxlib_reads(name: str, tmp_path: Path) -> None:
    program = bytecode(PROGRAMS[name], OLDEST)
    assert normalized(printed(program, tmp_path)) == deserialized(program)


def test_shardings_are_what_jaxlib_reads(tmp_path: Path) -> None:
    program = bytecode(SHARDED, NEWEST)
    assert normalized(printed(program, tmp_path)) == deserialized(program)


@pytest.mark.parametrize("name", PROGRAMS)
def test_printed_text_reads_back(name: str, tmp_path: Path) -> None:
    text = printed(bytecode(PROGRAMS[name], NEWEST), tmp_path)
    assert printed(text.encode(), tmp_path) == text


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NOT_READ_AS_TEXT])
def test_text_is_what_jaxlib_reads(name: str, tmp_path: Path) -> None:
    text = PROGRAMS[name]
    assert normalized(printed(text.encode(), tmp_path)) == deserialized(bytecode(text, NEWEST))


def jax_functions() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def of(*sizes: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(sizes, dtype)

    index, key = of(3, dtype=jnp.int32), of(2, dtype=jnp.uint32)
    return {
        "multiply": (lambda x: x * 2, [of(4)]),
        "matmul": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), [of(2, 3, 4), of(2, 4, 5)]),
        "convolution": (
            jax.grad(lambda x, w: lax.conv(x, w, (1, 1), "SAME").sum(), (0, 1)),
            [of(1, 3, 8, 8), of(6, 3, 3, 3)],
        ),
        "pooling": (
            jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()),
            [of(1, 8, 8, 3)],
        ),
        "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x), [of(10, 3)]),
        "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x), [of(dtype=jnp.int32), of(3)]),
        "gather": (lambda x, i: x[i], [of(10, 4), index]),
        "scatter": (lambda x, i: x.at[i].add(1.0), [of(10, 4), index]),
        "random": (lambda k: jax.random.randint(k, (5,), 0, 9), [key]),
        "sort": (lambda x, y: lax.sort((x, y), num_keys=2), [of(3), index]),
        "softmax": (jax.nn.softmax, [of(4, 5)]),
        "fft": (jnp.fft.ifft2, [of(4, 4, dtype=jnp.complex64)]),
        "cholesky": (jnp.linalg.cholesky, [of(4, 4)]),
        "constants": (lambda x: x + jnp.arange(77.0), [of(77)]),
        "attention": (lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), [of(1, 5, 2, 4)]),
    }


JAX_FUNCTIONS = [
    "multiply",
    "matmul",
    "convolution",
    "pooling",
    "scan",
    "switch",
    "gather",
    "scatter",
    "random",
    "sort",
    "softmax",
    "fft",
    "cholesky",
    "constants",
    "attention",
]


@pytest.mark.parametrize("name", JAX_FUNCTIONS)
def test_jax_programs_are_what_jaxlib_reads(name: str, tmp_path: Path) -> None:
    require("jax")
    import jax

    function, arguments = jax_functions()[name]
    module = jax.jit(function).lower(*arguments).compiler_ir("stablehlo")
    with module.context:
        program = serialize(module, NEWEST)
    text = printed(program, tmp_path)
    assert normalized(text) == deserialized(program)
    assert printed(text.encode(), tmp_path) == text
