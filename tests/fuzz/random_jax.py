"""Random small programs of JAX, run on the device and on JAX's CPU in one process.

python random_jax.py prints how many programs of which kinds it made, and those that differ, as scripts that show it:
{"seed": 1, "programs": 60, "kinds": {"gather": 14, ...}, "wrong": [{"script": "...", "message": "..."}, ...]}.
FUZZ_SEED chooses others, FUZZ_PROGRAMS how many.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import pjrt_mydev

HEADER = "import jax, jax.numpy as jnp, numpy as np\nfrom jax import lax\n"
FOOTER = """
for platform in ("{device}", "cpu"):
    print(*jax.jit(program)(*jax.device_put(arguments, jax.devices(platform)[0])), sep="\\n")
"""
FLOATS = ("float32", "float32", "float16", "bfloat16")
INTEGERS = ("int32", "uint32", "int8", "uint8", "int16", "uint16")
SIZES = (1, 2, 3, 4, 5, 7)
#: Relative to the largest number of a result, since steps add up.
TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


class Program(NamedTuple):
    script: str  # what defines `arguments` and `program`
    kinds: set[str]


class Writer:
    """Writes one program: statements over arrays whose shapes and types it knows.

    Integers never depend on values that floats compute, so that rounding never becomes another choice.
    """

    def __init__(self, generator: random.Random) -> None:
        self.random = generator
        self.arguments: list[str] = []
        self.lines: list[str] = []
        self.arrays: dict[str, jax.ShapeDtypeStruct] = {}

    def argument(self, dtypes: tuple[str, ...] = FLOATS + INTEGERS, rank: int | None = None) -> str:
        """Adds an argument of small numbers, and returns its name."""
        name, dtype = f"a{len(self.arguments)}", self.random.choice(dtypes)
        rank = self.random.randint(1, 3) if rank is None else rank
        sizes = tuple(self.random.choice(SIZES) for _ in range(rank))
        numbers = f"np.random.default_rng({self.random.randrange(100)})"
        values = f"{numbers}.uniform(-2, 2, {sizes})" if dtype in FLOATS else f"{numbers}.integers(0, 100, {sizes})"
        self.arguments.append(f"jnp.asarray({values}, jnp.{dtype})")
        self.arrays[name] = jax.ShapeDtypeStruct(sizes, dtype)
        return name

    def array(self, dtypes: tuple[str, ...] = FLOATS + INTEGERS, least_rank: int = 0) -> str:
        """One that there is, or a new one."""
        fitting = [
            name
            for name, array in self.arrays.items()
            if str(array.dtype) in dtypes and array.ndim >= least_rank and 0 < array.size < 2000
        ]
        if fitting and self.random.random() < 0.8:
            return self.random.choice(fitting)
        return self.argument(dtypes, self.random.randint(max(least_rank, 1), 3))

    def let(self, expression: str) -> str:
        """Gives the value of the expression a name, and returns the name."""
        names = {"jax": jax, "jnp": jnp, "lax": lax}
        array = jax.eval_shape(lambda arrays: eval(expression, names | arrays), self.arrays)
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {expression}")
        self.arrays[name] = array
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.arrays[name].shape)

    def axis(self, name: str) -> int:
        return self.random.randrange(len(self.shape(name)))

    def program(self, kinds: set[str]) -> Program:
        results = [name for name in self.arrays if name.startswith("v")]
        kept = [name for name in results if self.random.random() < 0.5] or results[-1:]
        names = ", ".join(f"a{i}" for i in range(len(self.arguments)))
        script = f"{HEADER}arguments = ({''.join(f'{value}, ' for value in self.arguments)})\n"
        script += f"def program({names}):\n" + "\n".join(self.lines) + f"\n    return {', '.join(kept)},\n"
        return Program(script, kinds)


def elementwise(w: Writer) -> None:
    x, y = w.array(FLOATS), w.array(INTEGERS)
    float_forms = ("jnp.sin({x})", "jnp.tanh({x}) * 2", "abs({x}) + 0.5", "jax.nn.sigmoid({x})", "jnp.maximum({x}, 0)")
    integer_forms = (
        "{y} + {y}", "{y} // 3", "{y} ^ 5", "{y} >> 1", "~{y}", "lax.population_count({y})", "lax.clz({y})",
        "jnp.where({y} > 7, {y}, 3)", "lax.rem({y}, jnp.full_like({y}, 5))", "{y}.astype(jnp.float32)",
    )  # fmt: skip
    w.let(w.random.choice(float_forms).format(x=x))
    w.let(w.random.choice(integer_forms).format(y=y))


def movement(w: Writer) -> None:
    x = w.array(least_rank=1)
    axis = w.axis(x)
    forms = (
        f"jnp.transpose({x})", f"jnp.flip({x}, {axis})", f"{x}.reshape(-1)", f"jnp.roll({x}, 2, {axis})",
        f"jnp.concatenate([{x}, {x}], {axis})", f"jnp.broadcast_to({x}, (2, *{x}.shape))",
        f"lax.pad({x}, jnp.zeros((), {x}.dtype), [(1, -1, 2)] + [(0, 1, 0)] * {len(w.shape(x)) - 1})",
        f"lax.slice_in_dim({x}, 0, None, 2, {axis})", f"lax.rev({x}, ({axis},))", f"jnp.expand_dims({x}, {axis})",
    )  # fmt: skip
    w.let(w.random.choice(forms))


def bits(w: Writer) -> None:
    x = w.array(INTEGERS, 1)
    narrower = [dtype for dtype in INTEGERS if np.dtype(dtype).itemsize <= w.arrays[x].dtype.itemsize]
    w.let(f"lax.bitcast_convert_type({x}, jnp.{w.random.choice(narrower)})")


def reduction(w: Writer) -> None:
    x = w.array(least_rank=1)
    forms = ("{x}.sum({axis})", "{x}.max({axis})", "{x}.min({axis}, keepdims=True)", "jnp.cumsum({x}, {axis})",
             "lax.cummax({x}, {axis})", "{x}.sum()", "jnp.cumsum({x}[::-1], 0)")  # fmt: skip
    w.let(w.random.choice(forms).format(x=x, axis=w.axis(x)))
    y = w.array(INTEGERS, 1)
    axis = w.axis(y)
    w.let(w.random.choice((f"jnp.argmax({y}, {axis})", f"jnp.any({y} > 40, {axis})", f"{y}.prod({axis})")))


def window(w: Writer) -> None:
    x = w.array(("float32", "int32"), 1)
    rank = len(w.shape(x))
    start, body = w.random.choice((("0", "lax.add"), ("-7", "lax.max"), ("9", "lax.min")))
    sizes, strides, dilation = ([w.random.randint(1, most) for _ in range(rank)] for most in (3, 2, 2))
    padding = w.random.choice(("'SAME'", "'VALID'", str([(w.random.randint(0, 2), 1) for _ in range(rank)])))
    initial = f"jnp.array({start}, {x}.dtype)"
    w.let(f"lax.reduce_window({x}, {initial}, {body}, {sizes}, {strides}, {padding}, None, {dilation})")


def indices(w: Writer, size: int, count: int) -> str:
    """Some of a dimension's, and some beyond its ends."""
    return f"jnp.array({[w.random.randint(-size - 1, size + 1) for _ in range(count)]})"


def gather(w: Writer) -> None:
    x = w.array(least_rank=1)
    axis = w.axis(x)
    places = indices(w, w.shape(x)[axis], w.random.randint(1, 6))
    mode = w.random.choice(("clip", "fill", "wrap"))
    forms = (  # indices without a mode are a promise
        f"jnp.take({x}, {places}, {axis}, mode='{mode}')", f"{x}[{places} % {w.shape(x)[0]}]",
        f"{x}[..., {places} % {w.shape(x)[-1]}]",
        f"jnp.take_along_axis({x}, jnp.argsort({x} * 0 + 1, {axis}), {axis})",
    )  # fmt: skip
    w.let(w.random.choice(forms))


def scatter(w: Writer) -> None:
    x = w.array(least_rank=1)
    places = indices(w, w.shape(x)[0], w.random.randint(1, 6))
    combination = w.random.choice(("add", "max", "min", "multiply"))
    mode = w.random.choice(("drop", "clip", "promise_in_bounds"))
    place = w.random.randrange(w.shape(x)[0])
    inside = f"{places} % {w.shape(x)[0]}" if mode == "promise_in_bounds" else places
    forms = (f"{x}.at[{inside}].{combination}(2, mode='{mode}')", f"{x}.at[{place}].set({x}[0])",
             f"{x}.at[..., ::2].{combination}(3)")  # fmt: skip
    w.let(w.random.choice(forms))


def dynamic_slice(w: Writer) -> None:
    x, starts = w.array(least_rank=1), w.array(("int32",), 1)
    start = f"{starts}.reshape(-1)[0] % 9 - 3"
    sizes = [w.random.randint(1, size) for size in w.shape(x)]
    whole = f"({start},) + (0,) * {len(sizes) - 1}"
    part = w.let(f"lax.dynamic_slice({x}, {whole}, {sizes})")
    w.let(f"lax.dynamic_update_slice({x}, {part} + {part}, {whole})")


def loop(w: Writer) -> None:
    x = w.array(least_rank=1)
    half = f"c // 2 + {x}[0]" if str(w.arrays[x].dtype) in INTEGERS else f"c * {x}.dtype.type(0.5) + {x}[0]"
    rows = w.shape(x)[0]
    forms = (
        f"lax.fori_loop(0, {w.random.randint(0, 5)}, lambda i, c: {half}, {x})",
        f"lax.fori_loop(0, {rows}, lambda i, c: c.at[i].set({x}[{rows - 1} - i]), {x})",
        f"lax.scan(lambda c, y: (jnp.maximum(c, y), c + y), {x}[0], {x}, reverse=True)[1]",
        f"lax.while_loop(lambda s: s[0] < {rows - 1}, lambda s: (s[0] + 1, jnp.roll(s[1], 1)), (0, {x}))[1]",
        f"lax.cond({x}.size > 3, lambda c: c + c, lambda c: c, {x})",
        f"lax.fori_loop(0, {rows}, lambda i, c: c + lax.dynamic_index_in_dim({x}, i, 0, False), {x}[0] * 0)",
        f"lax.map(lambda row: row.sum(), {x})",
    )
    w.let(w.random.choice(forms))


def random_bits(w: Writer) -> None:
    """Several of one key, which differ in shape or type alone."""
    kind = w.random.choice(("threefry2x32", "rbg", "unsafe_rbg"))
    key = f"jax.random.key({w.random.randrange(9)}, impl='{kind}')"
    dtypes = [w.random.choice(("uint8", "uint16", "uint32")) for _ in range(3)]
    sizes = [w.random.choice(((), (4,), (5,), (16,), (2, 3))) for _ in range(3)]
    for size, dtype in zip(sizes, dtypes, strict=True):
        w.let(f"jax.random.bits({key}, {size}, jnp.{dtype})")
    w.let(w.random.choice(("jax.random.uniform({key}, (5,))", "jax.random.permutation({key}, 7)")).format(key=key))


def sorting(w: Writer) -> None:
    x, y = w.array(least_rank=1), w.array(INTEGERS, 1)
    w.let(f"jnp.sort({x}, {w.axis(x)})")
    forms = (f"jnp.argsort({y}, {w.axis(y)})", f"lax.top_k({y}, 1)[0]", f"lax.sort(({y}, {y} ^ 1), num_keys=2)[1]")
    w.let(w.random.choice(forms))


def product(w: Writer) -> None:
    x = w.array(("float32", "int32", "int8"), 2)
    wide = ", preferred_element_type=jnp.float32" if w.random.random() < 0.5 else ""
    w.let(f"jnp.einsum('...ij,...kj->...ik', {x}, {x}{wide})")


KINDS: tuple[Callable[[Writer], None], ...] = (
    elementwise, movement, bits, reduction, window, gather, scatter, dynamic_slice, loop, random_bits, sorting, product,
)  # fmt: skip


def make_program(generator: random.Random) -> Program:
    writer, kinds = Writer(generator), generator.choices(KINDS, k=generator.randint(2, 5))
    for kind in kinds:
        kind(writer)
    return writer.program({kind.__name__ for kind in kinds})


def check(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    tolerance = TOLERANCES.get(str(expected.dtype))
    if tolerance is None or expected.size == 0:
        np.testing.assert_array_equal(actual, expected)
        return
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * largest)


def message_of(script: str, device: jax.Device, cpu: jax.Device) -> str:
    """Returns what is wrong with a program, whatever it raises; "" if nothing is."""
    try:
        names: dict[str, Any] = {}
        exec(script, names)
        on_device, on_cpu = (
            jax.jit(names["program"])(*jax.device_put(names["arguments"], where)) for where in (device, cpu)
        )
        for actual, expected in zip(on_device, on_cpu, strict=True):
            check(np.asarray(actual), np.asarray(expected))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    seed, count = int(os.environ.get("FUZZ_SEED", "1")), int(os.environ.get("FUZZ_PROGRAMS", "60"))
    pjrt_mydev.initialize()
    name = pjrt_mydev.device_name()
    jax.config.update("jax_platforms", f"{name},cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    device, cpu = jax.devices(name)[0], jax.devices("cpu")[0]
    kinds: Counter[str] = Counter()
    wrong = []
    for number in range(count):
        with jax.default_device(cpu):
            script, made_of = make_program(random.Random(f"{seed}.{number}"))
        kinds.update(made_of)
        if message := message_of(script, device, cpu):
            wrong.append({"script": script + FOOTER.format(device=name), "message": message})
    print(json.dumps({"seed": seed, "programs": count, "kinds": dict(sorted(kinds.items())), "wrong": wrong}))


if __name__ == "__main__":
    main()
