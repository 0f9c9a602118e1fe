"""Functions of JAX, each with arguments: what tests compare between the device and JAX's CPU.

A case is a function of arrays and a list of shapes or arrays; shapes become normal numbers of f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[Callable[..., Any], list[Any]]

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 1e30, np.inf, -np.inf, np.nan], np.float32)
_INTEGERS = np.array([0, 1, -1, 2, 7, -8, 100, 2**31 - 1, -(2**31)], np.int32)
UNSIGNED = np.array([0, 1, 2, 7, 200, 2**31, 2**32 - 1], np.uint32)
_SMALL = np.arange(12, dtype=np.float32).reshape(3, 4)

UNARY = [
    jnp.abs, jnp.negative, jnp.exp, jnp.expm1, jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.cbrt, jnp.sin, jnp.cos,
    jnp.tan, jnp.tanh, jnp.arcsin, jnp.arctan, jnp.sinh, jnp.arcsinh, jnp.floor, jnp.ceil, jnp.round, jnp.trunc,
    jnp.sign, jnp.isfinite, jnp.isnan, jnp.isinf, jax.nn.sigmoid, jax.nn.relu, jax.nn.gelu, jax.nn.silu,
    jax.nn.softplus, jnp.square, jnp.reciprocal, lax.erf, lax.erfc, lax.lgamma, lax.digamma, lax.erf_inv, jnp.signbit,
    lax.is_finite,
]  # fmt: skip
INTEGER_UNARY = [jnp.abs, jnp.negative, jnp.sign, jnp.invert, lax.population_count, lax.clz]
INTEGER_BINARY = [
    jnp.add, jnp.subtract, jnp.multiply, lax.div, lax.rem, jnp.floor_divide, jnp.mod, jnp.bitwise_and, jnp.bitwise_or,
    jnp.bitwise_xor, jnp.maximum, jnp.minimum, jnp.less, jnp.greater_equal, jnp.equal, jnp.not_equal,
    lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic,
]  # fmt: skip
BINARY = [
    jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.power, jnp.maximum, jnp.minimum, jnp.arctan2, lax.rem,
    jnp.less, jnp.greater, jnp.less_equal, jnp.greater_equal, jnp.equal, jnp.not_equal, jnp.hypot, jnp.logaddexp,
    jnp.nextafter, jnp.copysign,
]  # fmt: skip
REDUCTIONS = [
    jnp.sum, jnp.prod, jnp.max, jnp.min, jnp.mean, jnp.var, jnp.argmax, jnp.argmin, jnp.any, jnp.all, jnp.cumsum,
    jnp.cumprod, jax.nn.logsumexp, jax.nn.softmax, jax.nn.log_softmax, lax.cummax,
]  # fmt: skip


def _pairs(values: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    first, second = np.meshgrid(values, values)
    return [first, second]


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", function))


def _elementwise() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for function in UNARY:
        cases[f"{_name(function)}-edges"] = (function, [EDGES])
        cases[f"{_name(function)}-f16"] = (function, [_SMALL.astype(np.float16) / 12])
        cases[f"{_name(function)}-empty"] = (function, [np.zeros((2, 0), np.float32)])
    for function in INTEGER_UNARY:
        cases[f"{_name(function)}-s32"] = (function, [_INTEGERS])
        cases[f"{_name(function)}-u32"] = (function, [UNSIGNED])
        cases[f"{_name(function)}-s8"] = (function, [_INTEGERS.astype(np.int8)])
    for function in BINARY:
        cases[f"{_name(function)}-edges"] = (function, _pairs(EDGES))
        cases[f"{_name(function)}-broadcast"] = (function, [(3, 1), (1, 4)])
    for function in INTEGER_BINARY:
        cases[f"{_name(function)}-s32"] = (function, _pairs(_INTEGERS))
        cases[f"{_name(function)}-u32"] = (function, _pairs(UNSIGNED))
        cases[f"{_name(function)}-u8"] = (function, _pairs(UNSIGNED.astype(np.uint8)))
        cases[f"{_name(function)}-s16"] = (function, _pairs(_INTEGERS.astype(np.int16)))
    return cases


def _conversions() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    types = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32",
             "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "int4", "uint4", "complex64"]  # fmt: skip
    for source in types:
        for target in types:
            if source == "complex64" and target != "complex64":
                continue
            values = _INTEGERS.astype(np.float32) / 3 if "int" not in source else _INTEGERS.astype(np.int8)
            array = np.asarray(values).astype(jnp.dtype(source)) if "float8" not in source else values.astype(source)
            cases[f"convert-{source}-{target}"] = (lambda x, t=target: lax.convert_element_type(x, t), [array])
    for name in ["int8", "int32", "uint8", "uint16", "uint32"]:
        cases[f"saturate-{name}"] = (lambda x, t=name: lax.convert_element_type(x, t), [EDGES * 3e9])
    cases["bitcast"] = (lambda x: lax.bitcast_convert_type(x, jnp.int32), [EDGES])
    cases["bitcast-narrower"] = (lambda x: lax.bitcast_convert_type(x, jnp.uint8), [EDGES])
    cases["bitcast-wider"] = (
        lambda x: lax.bitcast_convert_type(x, jnp.float32),
        [np.arange(8, dtype=np.int16).reshape(4, 2)],
    )
    formats = [(5, 10), (8, 23), (8, 7), (4, 3), (11, 52), (1, 0), (6, 23), (8, 0)]
    for dtype in (jnp.float32, jnp.float16, jnp.bfloat16):
        numbers = np.concatenate([EDGES, np.float32([65504, 65519, 65520, 6e-5, 6e-8, 1.5, 1.75, 3.14159, -1e-3])])
        cases[f"reduce_precision-{dtype.__name__}"] = (
            lambda x: [lax.reduce_precision(x, exponent, mantissa) for exponent, mantissa in formats],
            [numbers.astype(dtype)],
        )
    every_byte = np.arange(256, dtype=np.uint8)
    for name in ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"]:
        kind = getattr(jnp, name)
        cases[f"bitcast-to-{name}"] = (
            lambda x, kind=kind: lax.bitcast_convert_type(x, kind).astype(jnp.float32),
            [every_byte],
        )
        cases[f"bitcast-from-{name}"] = (
            lambda x, kind=kind: lax.bitcast_convert_type(lax.bitcast_convert_type(x, kind), x.dtype),
            [every_byte.view(np.int16)],
        )
    cases["bitcast-int4-int2"] = (
        lambda x: lax.bitcast_convert_type(x.astype(jnp.int4), jnp.int2).astype(jnp.int8),
        [np.arange(-8, 8, dtype=np.int8)],
    )
    cases["bitcast-narrow-empty"] = (
        lambda x: lax.bitcast_convert_type(x, jnp.uint4).astype(jnp.int8),
        [np.zeros((0, 3), np.uint8)],
    )
    cases["complex"] = (lambda x, y: jnp.abs(lax.complex(x, y) * 2j), [(3, 4), (3, 4)])
    cases["complex-parts"] = (lambda x: (jnp.real(x), jnp.imag(x), jnp.conj(x), jnp.exp(x)), [_SMALL * (1 + 2j) / 9])
    return cases


def _movement() -> dict[str, Case]:
    integers = np.array([2, 0, 1, 5, -1], np.int32)
    table = np.arange(24, dtype=np.float32).reshape(4, 6)
    return {
        "transpose": (lambda x: x.T, [(3, 4)]),
        "reshape-of-a-transpose": (lambda x: x.T.reshape(2, 6), [(3, 4)]),
        "slice": (lambda x: x[1:, ::2], [(3, 5)]),
        "reverse": (lambda x: x[::-1] + 1, [(3, 5)]),
        "reverse-and-multiply": (lambda x: x[:, ::-1] @ x.T, [(3, 5)]),
        "flip-twice": (lambda x: jnp.flip(x).reshape(-1), [(3, 5)]),
        "concatenate": (lambda x, y: jnp.concatenate([x, y, x], 1), [(3, 4), (3, 0)]),
        "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=7), [(3, 4)]),
        "pad-negative": (lambda x: lax.pad(x, 0.5, [(-1, 2, 1), (2, -3, 2)]), [(3, 4)]),
        "pad-away": (lambda x: lax.pad(x, 0.5, [(-5, 7, 0)]), [(3,)]),
        "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, (3, 4), 1), [(3, 4)]),
        "iota-u32": (lambda x: lax.iota(jnp.uint32, 5) + x.astype(jnp.uint32), [np.ones(5, np.float32)]),
        "one_hot": (lambda x: jax.nn.one_hot(x, 4), [integers]),
        "take": (lambda x, i: jnp.take(x, i, axis=1), [table, integers]),
        "index": (lambda x, i: x[i], [table, integers]),
        "index-negative": (lambda x, i: x[:, i - 1], [table, integers]),
        "index-two": (lambda x, i: x[i % 4, i % 6], [table, integers]),
        "index-elements": (lambda x, i: x[i, i - 1], [table, integers]),
        "index-one": (lambda x, i: (x[i[4]], x[i[4], i[0] - 3], x.at[i[4] - 1, 2].add(1.0)), [table, integers]),
        "index-wide": (lambda x, i: (x[i.astype(jnp.int8)], x[i.astype(jnp.uint8)]), [table, integers]),
        "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i[None, :].repeat(4, 0) % 6, 1), [table, integers]),
        "scatter-set": (lambda x, i: x.at[i].set(1.0), [table, integers]),
        "scatter-add": (lambda x, i: x.at[:, i].add(2.0), [table, integers]),
        "scatter-add-elements": (lambda x, i: x.at[i, i % 3].add(2.0), [table, integers]),
        "scatter-add-rows": (lambda x, i: x.at[i].add(x[i - 2]), [table, integers]),
        "scatter-max": (lambda x, i: x.at[i % 2].max(9.0), [table, integers]),
        "scatter-mul-rows": (lambda x, i: x.at[i % 4].mul(jnp.arange(6.0)), [table, integers]),
        "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i[0], i[3]), (2, 3)), [table, integers]),
        "dynamic_update_slice": (
            lambda x, i: lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i[3], i[4])),
            [table, integers],
        ),
        "where": (lambda x: jnp.where(x > 0, x, -1.0), [(3, 4)]),
        "clip": (lambda x: jnp.clip(x, -0.5, 0.5), [(3, 4)]),
        "clamp-tensors": (lambda x, y: lax.clamp(-jnp.abs(y), x, jnp.abs(y)), [(3, 4), (3, 4)]),
        "roll": (lambda x: jnp.roll(x, 2, 1), [(3, 5)]),
        "tril": (jnp.tril, [(4, 4)]),
        "repeat": (lambda x: jnp.repeat(x, 3, axis=0), [(3, 4)]),
        "tile": (lambda x: jnp.tile(x, (2, 3)), [(3, 4)]),
        "diagonal": (lambda x: jnp.diagonal(x), [(4, 4)]),
        "searchsorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), [(9,), (4,)]),
        "meshgrid": (lambda x, y: jnp.meshgrid(x, y), [(3,), (4,)]),
    }


def _indexing() -> dict[str, Case]:
    """Parts that begin where indices say: within, beyond both ends, at one place several times; of each type."""
    cases: dict[str, Case] = {}
    places = np.array([2, -9, 3, 2, 99, 0, 2], np.int32)
    types = ["bool", "int8", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "complex64",
             "int4", "float8_e4m3fn"]  # fmt: skip
    for type_name in types:
        dtype = jnp.dtype(type_name)
        table = (np.arange(24) % 7).reshape(4, 6).astype(np.float32).astype(dtype)
        rows = (np.arange(42) % 5).reshape(7, 6).astype(np.float32).astype(dtype)
        cases[f"rows-{type_name}"] = (lambda x, i: x[i], [table, places])
        cases[f"set-rows-{type_name}"] = (lambda x, i, u: x.at[i, 1:3].set(u[:, :2]), [table, places[:3], rows[:3]])
        cases[f"slide-{type_name}"] = (
            lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i[4], i[1]), (2, 3)), (i[0], i[2])),
            [table, places],
        )
        cases[f"sort-{type_name}"] = (jnp.sort, [rows]) if type_name != "int4" else (lambda x: x, [rows])
        if dtype.itemsize * 8 < 16 and dtype.kind not in "iub":
            continue
        for update in ("add", "multiply", "max", "min"):
            numbers = update in ("max", "min") or type_name != "bool"
            if numbers and (type_name != "complex64" or update in ("add", "multiply")):
                cases[f"{update}-rows-{type_name}"] = (
                    lambda x, i, u, f=update: getattr(x.at[i], f)(u),
                    [table, places, rows],
                )
    table, nan = np.arange(24, dtype=np.float32).reshape(4, 6), np.array([np.nan, 1, -0.0, 0.0, np.nan, -np.inf, 7])
    values = np.tile(nan.astype(np.float32)[:, None], (1, 6))
    cases["max-rows-nan"] = (lambda x, i, u: x.at[i].max(u), [table, places, values])
    cases["min-rows-nan"] = (lambda x, i, u: x.at[i].min(u), [table, places, values])
    cases["rows-u32-places"] = (lambda x, i: x[i.astype(jnp.uint32)], [table, np.abs(places)])
    cases["slide-u8-places"] = (lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (1, 2)), [table, np.uint8([200, 3])])
    cases["no-places"] = (lambda x, i: (x[i], x.at[i].add(1.0)), [table, np.zeros(0, np.int32)])
    cases["no-rows"] = (lambda x, i: x.at[i].add(jnp.zeros((7, 0))), [np.zeros((4, 0), np.float32), places])
    cases["windows-in-the-middle"] = (
        lambda x, i: x[:, i, 1:],
        [np.arange(60, dtype=np.float32).reshape(3, 4, 5), places % 4],
    )
    cases["vmap-of-slices"] = (jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))), [table, places[:4]])
    cases["vmap-of-updates"] = (jax.vmap(lambda x, i: x.at[i].add(5.0)), [table, places[:4]])
    cases["vmap-of-dynamic-updates"] = (
        jax.vmap(lambda x, u, i: lax.dynamic_update_slice(x, u, (i,))),
        [table, table[:, :2], places[:4]],
    )
    cases["scatter-by-a-formula"] = (lambda x, i: x.at[i].apply(jnp.sin), [table, places[:1]])
    cases["segment_sum"] = (lambda x, i: jax.ops.segment_sum(x, i % 3, 3), [values[:, :1] * 0 + table[0, :1], places])
    cases["embedding-gradient"] = (jax.grad(lambda x, i: (x[i] ** 2).sum()), [table, places])
    return cases


def _reductions() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for function in REDUCTIONS:
        axes = [0, 1] if function is not lax.cummax else [0]
        for axis in axes:
            cases[f"{_name(function)}-{axis}"] = (lambda x, f=function, a=axis: f(x, axis=a), [(5, 7)])
        cases[f"{_name(function)}-s32"] = (
            lambda x, f=function: f(x, axis=0),
            [np.arange(12, dtype=np.int32).reshape(3, 4)],
        )
    cases["sum-all"] = (jnp.sum, [(5, 7, 3)])
    cases["sum-inner-dims"] = (lambda x: jnp.sum(x, axis=(0, 2)), [(5, 7, 3)])
    cases["sum-empty"] = (lambda x: jnp.sum(x, axis=0), [(0, 3)])
    cases["max-nan"] = (jnp.max, [EDGES])
    cases["sum-c64"] = (lambda x: (x.sum(), x.sum(0), x.mean(1), x.sum(initial=2j)), [_SMALL * (1 + 2j)])
    cases["sum-c64-empty"] = (lambda x: x.sum(1, initial=2j), [np.zeros((2, 0), np.complex64)])
    for name in ("uint16", "uint32"):
        cases[f"powers-{name}"] = (
            lambda x: [(lax.div(x, x.dtype.type(p)), lax.rem(x, x.dtype.type(p))) for p in (1, 2, 16, 2**15)],
            [UNSIGNED.astype(name)],
        )
        numbers = np.resize(UNSIGNED, (3, 5)).astype(name)
        cases[f"extrema-{name}"] = (
            lambda x: (x.max(0), x.min(1), x.max(initial=7), x.argmax(1), x.argmin(0)),
            [numbers],
        )
        cases[f"cumulative-extrema-{name}"] = (lambda x: (lax.cummax(x), lax.cummin(x, 1, reverse=True)), [numbers])
        cases[f"clamp-{name}"] = (
            lambda x: (
                jnp.clip(x, 2, 30000),
                jnp.maximum(x, 300),
                jnp.minimum(x, x[::-1]),
                lax.clamp(x[0, 1], x, x[1, 0]),
            ),
            [numbers],
        )
    cases["sum-u32"] = (jnp.sum, [UNSIGNED])
    cases["max-u32"] = (jnp.max, [UNSIGNED])
    cases["sum-with-initial"] = (lambda x: jnp.sum(x, initial=3.0), [(4,)])
    cases["reduce-custom"] = (lambda x: lax.reduce(x, np.float32(1), lambda a, b: a + b + a * b, [1]), [(3, 4)])
    cases["sort"] = (lambda x: jnp.sort(x, axis=0), [(9, 4)])
    cases["sort-nan"] = (jnp.sort, [EDGES])
    cases["sort-descending"] = (lambda x: jnp.sort(x, descending=True), [(9,)])
    cases["argsort"] = (jnp.argsort, [(9,)])
    cases["sort-pairs"] = (lambda x, y: lax.sort((x, y), num_keys=2), [np.array([1, 0, 1, 0]), np.array([4, 3, 2, 1])])
    cases["top_k"] = (lambda x: lax.top_k(x, 3), [(4, 9)])
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
        # Each number once, as approximate ones leave the order of equal ones open.
        numbers = np.random.default_rng(0).permutation(200).reshape(2, 100).astype(dtype)
        cases[f"approx_max_k-{dtype.__name__}"] = (lambda x: lax.approx_max_k(x, 5), [numbers])
        cases[f"approx_min_k-{dtype.__name__}"] = (lambda x: lax.approx_min_k(x, 5, reduction_dimension=0), [numbers.T])
    cases["approx_max_k-all"] = (lambda x: lax.approx_max_k(x, 5, aggregate_to_topk=False), [(3, 64)])
    cases["approx_max_k-gradient"] = (jax.grad(lambda x: (lax.approx_max_k(x, 4)[0] ** 2).sum()), [(3, 64)])
    cases["unique"] = (lambda x: jnp.unique(x, size=5), [np.array([3, 1, 3, 2])])
    cases["median"] = (lambda x: jnp.median(x, axis=0), [(5, 4)])
    cases["histogram"] = (lambda x: jnp.histogram(x, bins=4)[0], [(20,)])
    cases["max-pool"] = (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
        [(2, 5, 5, 3)],
    )
    whole = np.arange(-30, 30, dtype=np.int32).reshape(3, 4, 5)
    for function in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin):
        cases[f"{function.__name__}-u32"] = (lambda x, f=function: (f(x), f(x, reverse=True)), [UNSIGNED])
        cases[f"{function.__name__}-c64"] = (function, [_SMALL * (1 + 2j)])
        for axis in range(3):
            cases[f"{function.__name__}-{axis}"] = (lambda x, f=function, a=axis: f(x, axis=a), [whole / 16])
            cases[f"{function.__name__}-{axis}-back"] = (
                lambda x, f=function, a=axis: f(x, axis=a, reverse=True),
                [whole],
            )
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
        for reverse in (False, True):
            cases[f"cumlogsumexp-{dtype.__name__}-{reverse}"] = (
                lambda x, r=reverse: lax.cumlogsumexp(x, axis=1, reverse=r),
                [np.tile(EDGES, (2, 1)).astype(dtype)],
            )
    cases["cumulative-with-initial"] = (
        lambda x: lax.reduce_window(x, 3.0, lax.max, (5,), (1,), [(4, 0)]) + lax.cumsum(x),
        [(5,)],
    )
    cases["cumulative-of-others"] = (
        lambda x: [
            lax.reduce_window(x, 0.0, lambda a, b: a + b + a * b, (1, 6), (1, 1), [(0, 0), edges])
            for edges in ((5, 0), (0, 5))
        ],
        [(3, 6)],
    )
    cases["average-pool"] = (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 2), "VALID"), [(6, 7)])
    return cases


def _products() -> dict[str, Case]:
    def convolution(**options: Any) -> Callable[..., Any]:
        return lambda x, w: lax.conv_general_dilated(
            x,
            w,
            **{"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **options},
        )

    image, weight = (2, 6, 7, 4), (3, 3, 4, 5)
    return {
        "matmul": (jnp.matmul, [(5, 7), (7, 3)]),
        "matmul-batched": (jnp.matmul, [(2, 3, 5, 7), (2, 3, 7, 4)]),
        "matmul-broadcast": (jnp.matmul, [(2, 3, 5, 7), (7, 4)]),
        "matmul-transposed": (lambda x, y: x.T @ y.T, [(7, 5), (3, 7)]),
        "vector-products": (lambda x, y: (jnp.dot(x, y), jnp.outer(x, y)), [(7,), (7,)]),
        "einsum": (lambda x, y: jnp.einsum("abc,cbd->dab", x, y), [(2, 3, 4), (4, 3, 5)]),
        "matmul-empty": (jnp.matmul, [(3, 0), (0, 4)]),
        "matmul-s32": (
            jnp.matmul,
            [np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)],
        ),
        "matmul-bool": (lambda x, y: (x > 0) @ (y > 0), [(5, 3), (3, 4)]),
        "matmul-bool-empty": (lambda x, y: (x > 0) @ (y > 0), [(5, 0), (0, 4)]),
        "matmul-c64": (lambda x: x @ x.T, [_SMALL * (1 + 2j)]),
        "matmul-bf16": (lambda x: x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16), [(5, 7)]),
        "convolution": (convolution(), [image, weight]),
        "convolution-valid": (convolution(padding="VALID", window_strides=(2, 1)), [image, weight]),
        "convolution-dilated": (convolution(rhs_dilation=(2, 2)), [image, weight]),
        "convolution-transposed": (convolution(lhs_dilation=(2, 2), padding=((1, 2), (2, 1))), [image, weight]),
        "convolution-one-sided": (convolution(padding=((0, 2), (1, 0))), [image, weight]),
        "convolution-groups": (convolution(feature_group_count=2), [image, (3, 3, 2, 6)]),
        "convolution-nchw": (convolution(dimension_numbers=("NCHW", "OIHW", "NCHW")), [(2, 4, 6, 7), (5, 4, 3, 3)]),
        "convolution-1d": (
            lambda x, w: lax.conv_general_dilated(x, w, (2,), [(1, 1)], dimension_numbers=("NCH", "OIH", "NCH")),
            [(2, 4, 9), (5, 4, 3)],
        ),
        "convolution-gradients": (
            jax.grad(lambda x, w: jnp.sum(jnp.sin(convolution(window_strides=(2, 2))(x, w))), (0, 1)),
            [image, weight],
        ),
        "convolution-group-gradients": (
            jax.grad(lambda x, w: jnp.sum(jnp.sin(convolution(feature_group_count=4)(x, w))), (0, 1)),
            [image, (3, 3, 1, 4)],
        ),
        "max-pool-gradient": (
            jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2)),
            [(6, 6)],
        ),
        "fft": (lambda x: jnp.fft.fft2(x), [(6, 10)]),
        "rfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), [(3, 12)]),
        "cholesky": (lambda x: lax.linalg.cholesky(x @ x.T + 5 * jnp.eye(4)), [(4, 4)]),
        "triangular_solve": (
            lambda a, b: lax.linalg.triangular_solve(jnp.tril(a) + 3 * jnp.eye(4), b, left_side=True, lower=True),
            [(4, 4), (4, 2)],
        ),
        "triangular_solve-right": (
            lambda a, b: lax.linalg.triangular_solve(jnp.triu(a) + 3 * jnp.eye(4), b, transpose_a=True),
            [(4, 4), (2, 4)],
        ),
        "attention": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), [(2, 5, 3, 4)] * 3),
    }


def _control() -> dict[str, Case]:
    def newton(x: Any) -> Any:
        return lax.while_loop(lambda s: s[1] < 20, lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1), (x, 0))

    def swaps(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, s: (s[1], s[0] + i), (x, y))

    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: -x]
    return {
        "while": (newton, [np.full((3,), 2.0, np.float32)]),
        "swap-in-a-loop": (swaps, [(3,), (3,)]),
        "scan": (lambda x: lax.scan(lambda c, a: (c * 0.5 + a, c.sum()), jnp.zeros(4), x), [(7, 4)]),
        "scan-no-iterations": (lambda x: lax.scan(lambda c, a: (c + a, a), jnp.zeros(4), x), [(0, 4)]),
        "nested-loops": (
            lambda x: lax.fori_loop(0, 3, lambda i, a: lax.fori_loop(0, i + 1, lambda j, b: b * 0.5 + j, a), x),
            [(3,)],
        ),
        "cond": (lambda x: lax.cond(x.sum() > 0, lambda a: (a, 1.0), lambda a: (a * 2, 2.0), x), [(3,)]),
        "switch": (
            lambda x, i: [lax.switch(i[k], branches, x) for k in range(4)],
            [(3,), np.array([0, 1, 2, 9], np.int32)],
        ),
        "gradient-of-scan": (
            jax.grad(lambda x: lax.scan(lambda c, a: (jnp.tanh(c + a), c), jnp.zeros(4), x)[0].sum()),
            [(7, 4)],
        ),
        "loop-over-a-constant-array": (
            lambda x: lax.fori_loop(0, 4, lambda i, a: a + jnp.arange(12.0).reshape(4, 3)[i], x),
            [(3,)],
        ),
        "cond-in-a-loop": (
            lambda x: lax.fori_loop(0, 4, lambda i, a: lax.cond(i % 2 == 0, lambda b: b + i, lambda b: b * 2, a), x),
            [(3,)],
        ),
        "counting-by-three": (
            lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 3, s[1] * 2), (0, x)),
            [(3,)],
        ),
        "counting-by-what-is-carried": (
            lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + s[1], s[1], s[2] * 2), (0, 4, x)),
            [(3,)],
        ),
        "counting-to-an-argument": (
            lambda x, n: lax.fori_loop(0, n, lambda i, a: a * 0.5 + i, x),
            [(3,), np.int32(5)],
        ),
        "counter-asked-for": (
            lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 4, s[1] * 2), (1, x)),
            [(3,)],
        ),
        "places-of-a-counter": (
            lambda x: lax.fori_loop(0, 9, lambda i, a: a.at[i].set(a[i - 1] + a[i + 1] * 0.5), x),
            [(9,)],
        ),
        "counting-down": (lambda x: lax.fori_loop(-4, 5, lambda i, a: a.at[-i].add(a[i] * 0.5), x), [(9,)]),
        "shifted-in-a-loop": (lambda x: lax.fori_loop(0, 4, lambda i, a: jnp.roll(a, 1).at[i].set(i), x), [(5,)]),
        "read-after-update": (
            lambda x: lax.fori_loop(0, 4, lambda i, s: (s[0].at[i].set(9.0), s[1] + s[0][i]), (x, jnp.zeros(()))),
            [(5,)],
        ),
        "two-of-one": (lambda x: lax.fori_loop(0, 3, lambda i, s: (s[0] * 2, s[0] * 2 + s[1]), (x, x)), [(3,)]),
        "scan-backwards": (lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x, reverse=True), [(7, 4)]),
        "scan-of-matrices": (
            lambda w, x: lax.scan(lambda c, a: (jnp.tanh(c @ w + a),) * 2, jnp.zeros((2, 4)), x),
            [(4, 4), (6, 2, 4)],
        ),
        "no-iterations": (lambda x: lax.fori_loop(3, 1, lambda i, a: a + i, x), [(3,)]),
        "map": (lambda x: lax.map(lambda a: a.sum(), x), [(3, 4)]),
        "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), [(9,)]),
        "unused-and-repeated-results": (lambda x: (x, x, x + 1, jnp.zeros(3)), [(3,)]),
    }


def _bits_of_one_key(seed: Any, kind: str) -> list[Any]:
    """Several that differ in how many there are, and in their type, alone."""
    key = jax.random.key(seed, impl=kind)
    sizes = [((4,), jnp.uint32), ((5,), jnp.uint32), ((16,), jnp.uint8), ((8,), jnp.uint16), ((5,), jnp.uint16)]
    return [jax.random.bits(key, size, dtype) for size, dtype in sizes]


def _random() -> dict[str, Case]:
    def drawn(draw: Callable[..., Any]) -> Callable[..., Any]:
        return lambda seed: draw(jax.random.key(seed))

    seed = np.int32(7)
    return {
        "random-uniform": (drawn(lambda k: jax.random.uniform(k, (5, 3))), [seed]),
        "random-normal": (drawn(lambda k: jax.random.normal(k, (5, 3))), [seed]),
        "random-bits": (drawn(lambda k: jax.random.bits(k, (5, 3))), [seed]),
        "random-bits-8": (drawn(lambda k: jax.random.bits(k, (5, 3), jnp.uint8)), [seed]),
        "random-integers": (drawn(lambda k: jax.random.randint(k, (5, 3), -5, 100)), [seed]),
        "random-permutation": (drawn(lambda k: jax.random.permutation(k, 20)), [seed]),
        "random-categorical": (drawn(lambda k: jax.random.categorical(k, jnp.arange(6.0), shape=(9,))), [seed]),
        "random-gamma": (drawn(lambda k: jax.random.gamma(k, 2.5, (5,))), [seed]),
        "random-split": (drawn(lambda k: jax.random.uniform(jax.random.split(k, 4)[2], (3,))), [seed]),
        "random-bits-of-one-key": (lambda seed: _bits_of_one_key(seed, "threefry2x32"), [seed]),
        "random-bits-of-one-key-rbg": (lambda seed: _bits_of_one_key(seed, "rbg"), [seed]),
        "random-philox": (lambda key: lax.rng_bit_generator(key, (9,), jnp.uint32), [np.arange(4, dtype=np.uint32)]),
        "random-philox-bytes": (
            lambda key: lax.rng_bit_generator(key, (5, 2), jnp.uint8, algorithm=lax.RandomAlgorithm.RNG_PHILOX),
            [np.arange(4, dtype=np.uint32)],
        ),
        "random-threefry-bits": (
            lambda key: lax.rng_bit_generator(key, (9,), jnp.uint32, algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
            [np.arange(4, dtype=np.uint32)],
        ),
        "random-fold": (
            drawn(lambda k: jax.random.truncated_normal(jax.random.fold_in(k, 3), -1.0, 2.0, (4,))),
            [seed],
        ),
    }


CASES: dict[str, Case] = {
    **_elementwise(),
    **_conversions(),
    **_movement(),
    **_indexing(),
    **_reductions(),
    **_products(),
    **_control(),
    **_random(),
}
