"""Functions of JAX's public modules, one by one, on the device and on JAX's CPU: which differ, and how.

    python tests/pjrt/programs/jax_breadth.py [--part I/N] [--x64] [part of a case's name ...]

Each function of a row goes through what its row says: as it is and compiled, mapped, and where it is smooth with
forward and reverse derivatives. Operands are of f32 and the other dtypes, empty and 0-dimensional, and have NaN,
infinities and extremes. Prints a line for each case that differs, then {"cases": how many, "wrong": {name: message}},
without what LEDGER explains. A part is every N-th function, from the I-th on, so that a test can take a sample.

Subnormal numbers are left out: XLA's CPU takes them for zero, the device computes with them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.signal
import jax.scipy.stats
import numpy as np
from jax import lax

import pjrt_mydev

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

#: The tolerances of JAX's tests for values (jax._src.test_util), where they do not name another.
TOLERANCES = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-12,
              "complex128": 1e-12}  # fmt: skip
#: The same for derivatives.
GRADIENT_TOLERANCES = {"float16": 1e-2, "bfloat16": 1e-1, "float32": 1e-4, "complex64": 1e-4, "float64": 1e-10,
                       "complex128": 1e-10}  # fmt: skip

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 1e30, np.inf, -np.inf, np.nan])
INTEGERS = np.array([0, 1, -1, 2, 7, -8, 100, 127, -128])


@dataclass(frozen=True)
class Row:
    """Names of functions in a module that take the same arguments, and what they are asked."""

    module: Any
    names: str
    shapes: tuple[tuple[int, ...], ...] = ((3, 4),)
    options: tuple[tuple[str, Any], ...] = ()
    smooth: bool = True  # has derivatives at the values given
    low: float = -2.0  # between which values lie
    high: float = 2.0
    dtypes: str = "float32 float16 bfloat16"
    edges: bool = True  # takes NaN, infinities and extremes
    empty: bool = True
    scalar: bool = True  # takes 0-dimensional arrays


NUMBERS = "float32 float16 bfloat16 int32 int8 uint8 bool"
WHOLE = "int32 int8 uint8 int16 uint32"
COMPLEX = "float32 float16 bfloat16 complex64"
TWO = ((3, 4), (3, 4))
SQUARE = ((4, 4),)
PLAIN = {"edges": False, "empty": False, "scalar": False}
REDUCED = {"scalar": False, "edges": True}

ROWS = [
    Row(jnp, "exp expm1 sin cos tanh sinh cosh arctan arcsinh negative square positive conj", dtypes=COMPLEX),
    Row(jnp, "exp2 tan sinc sqrt log log2 log10 log1p cbrt reciprocal deg2rad rad2deg degrees radians i0",
        low=0.2),
    Row(jnp, "arcsin arccos arctanh", low=-0.9, high=0.9),
    Row(jnp, "arccosh", low=1.2, high=3.0),
    Row(jnp, "abs absolute fabs", low=0.1, dtypes="float32 float16 bfloat16"),
    Row(jnp, "sign floor ceil trunc rint round isnan isinf isfinite isneginf isposinf signbit iscomplex isreal "
        "logical_not nan_to_num frexp modf spacing real imag angle", smooth=False),
    Row(jnp, "abs sign square logical_not negative", smooth=False, dtypes=WHOLE),
    Row(jnp, "bitwise_not invert bitwise_count", smooth=False, dtypes=WHOLE),
    Row(jnp, "add subtract multiply", TWO, dtypes=COMPLEX),
    Row(jnp, "divide true_divide logaddexp logaddexp2 hypot arctan2 float_power power pow", TWO, low=0.3),
    Row(jnp, "maximum minimum fmax fmin heaviside nextafter copysign ldexp fmod mod remainder floor_divide divmod "
        "greater less greater_equal less_equal equal not_equal isclose logical_and logical_or logical_xor", TWO,
        smooth=False, dtypes="float32"),
    Row(jnp, "add subtract multiply maximum minimum floor_divide mod remainder fmod divmod greater less equal gcd lcm "
        "bitwise_and bitwise_or bitwise_xor left_shift right_shift", TWO, smooth=False, dtypes=WHOLE),
    Row(jnp, "sum mean var std ptp nansum nanmean nanvar nanstd cumsum", ((3, 4),), (("axis", 0),), **REDUCED),
    Row(jnp, "prod cumprod nanprod nancumsum", ((3, 4),), (("axis", 0),), low=0.5, **REDUCED),
    Row(jnp, "max min amax amin nanmax nanmin median nanmedian", ((5, 4),), (("axis", 0),), scalar=False,
        empty=False),
    Row(jnp, "argmax argmin nanargmax nanargmin any all count_nonzero sort argsort", ((5, 4),), (("axis", 0),),
        smooth=False, dtypes=NUMBERS, scalar=False, empty=False),
    Row(jnp, "sum prod max min mean", ((3, 4),), (("axis", 1),), smooth=False, dtypes=WHOLE, scalar=False),
    Row(jnp, "average trace diagonal diag tril triu flipud fliplr rot90", SQUARE, scalar=False),
    Row(jnp, "ravel transpose squeeze flip atleast_1d atleast_2d atleast_3d copy zeros_like ones_like diff ediff1d",
        dtypes=NUMBERS, scalar=False),
    Row(jnp, "dot matmul inner outer kron vdot tensordot", SQUARE * 2, edges=False, empty=False, scalar=False),
    Row(jnp, "cross", ((5, 3), (5, 3)), **PLAIN),
    Row(jnp, "convolve correlate polymul polyadd polysub", ((6,), (3,)), **PLAIN),
    Row(jnp, "polyval polydiv", ((3,), (3,)), low=0.5, **PLAIN),
    Row(jnp, "interp", ((5,), (4,), (4,)), smooth=False, **PLAIN),
    Row(jnp, "cov corrcoef", ((3, 9),), **PLAIN),
    Row(jnp, "trapezoid gradient unwrap", ((9,),), **PLAIN),
    Row(jnp, "searchsorted", ((6,), (4,)), smooth=False, **PLAIN),
    Row(jnp, "where", ((3, 4), (3, 4), (3, 4)), smooth=False),
    Row(jnp, "clip", ((3, 4),), (("min", -0.5), ("max", 0.7)), smooth=False, dtypes="float32 float16 int32"),
    Row(jnp, "roll", ((3, 4),), (("shift", 2), ("axis", 1)), dtypes=NUMBERS, scalar=False),
    Row(jnp, "tile", ((3, 4),), (("reps", (2, 3)),), scalar=False),
    Row(jnp, "repeat", ((3, 4),), (("repeats", 2), ("axis", 0)), scalar=False),
    Row(jnp, "quantile percentile nanquantile nanpercentile", ((7, 3),), (("q", 0.3), ("axis", 0)), **PLAIN),
    Row(jnp, "histogram", ((20,),), smooth=False, **PLAIN),
    Row(jnp, "union1d intersect1d setdiff1d setxor1d isin", ((5,), (6,)), (("size", 11),), smooth=False, **PLAIN),
    Row(jnp.linalg, "det slogdet inv pinv norm matrix_norm eigvalsh svdvals qr cond matrix_rank", SQUARE, low=0.0,
        **PLAIN),
    Row(jnp.linalg, "solve", ((4, 4), (4, 2)), **PLAIN),
    Row(jnp.linalg, "matmul", SQUARE * 2, **PLAIN),
    Row(jnp.linalg, "vector_norm", ((3, 4),), **PLAIN),
    Row(jnp.linalg, "matrix_power", SQUARE, (("n", 3),), **PLAIN),
    Row(jnp.fft, "fft ifft rfft ihfft hfft irfft fftshift ifftshift", ((3, 8),), dtypes="float32", **PLAIN),
    Row(jnp.fft, "fft2 ifft2 fftn ifftn rfft2 rfftn irfft2 irfftn", ((6, 8),), dtypes="float32", **PLAIN),
    Row(lax, "abs neg exp exp2 expm1 log1p sin cos tan tanh sinh cosh atan asinh logistic sqrt rsqrt cbrt log",
        low=0.2),
    Row(lax, "asin acos atanh erf erf_inv", low=-0.9, high=0.9),
    Row(lax, "acosh lgamma digamma bessel_i0e bessel_i1e erfc", low=1.1, high=4.0),
    Row(lax, "floor ceil round sign is_finite", smooth=False),
    Row(lax, "bitwise_not population_count clz", smooth=False, dtypes=WHOLE),
    Row(lax, "add sub mul div max min pow atan2 rem nextafter", TWO, low=0.3, smooth=False),
    Row(lax, "igamma igammac polygamma zeta random_gamma_grad", TWO, low=1.2, high=4.0, smooth=False, edges=False),
    Row(lax, "betainc", ((3, 4), (3, 4), (3, 4)), low=0.1, high=0.9, smooth=False, edges=False),
    Row(lax, "clamp", ((3, 4), (3, 4), (3, 4)), smooth=False),
    Row(lax, "cumsum cumprod cummax cummin cumlogsumexp", ((5, 4),), low=0.1, scalar=False),
    Row(lax, "shift_left shift_right_logical shift_right_arithmetic bitwise_and bitwise_or bitwise_xor", TWO,
        smooth=False, low=0, high=7, dtypes=WHOLE, edges=False),
    Row(lax.linalg, "lu qr eigh svd cholesky", SQUARE, smooth=False, **PLAIN),
    Row(jax.nn, "relu6 hard_tanh hard_sigmoid hard_silu hard_swish relu", low=0.1),
    Row(jax.nn, "sigmoid softplus sparse_plus sparse_sigmoid soft_sign silu swish log_sigmoid mish leaky_relu celu "
        "selu gelu elu squareplus glu standardize softmax log_softmax logsumexp logmeanexp identity",
        empty=False, scalar=False),
    Row(jax.nn, "one_hot", ((5,),), (("num_classes", 4),), smooth=False, low=-1, high=5, dtypes="int32", edges=False),
    Row(jsp.special, "erf erfc expit digamma entr gammaln loggamma gamma i0 i0e i1 i1e log_ndtr ndtr expi spence "
        "log_softmax softmax logsumexp", low=0.2, high=3.0, empty=False, scalar=False),
    # JAX's loop for it does not end at 1e-30, on the CPU either.
    Row(jsp.special, "exp1", low=0.2, high=3.0, edges=False, empty=False, scalar=False),
    Row(jsp.special, "erfinv logit ndtri", low=0.1, high=0.9),
    Row(jsp.special, "xlogy xlog1py rel_entr kl_div beta betaln gammainc gammaincc zeta poch", TWO, low=1.2, high=3.0,
        edges=False),
    Row(jsp.stats.norm, "pdf logpdf cdf logcdf sf logsf", edges=True),
    Row(jsp.stats.norm, "ppf isf", low=0.1, high=0.9, edges=False),
    Row(jsp.stats.cauchy, "pdf logpdf cdf logcdf sf"),
    Row(jsp.stats.logistic, "pdf logpdf cdf sf"),
    Row(jsp.stats.laplace, "pdf logpdf cdf", low=0.1),
    Row(jsp.stats.expon, "pdf logpdf", low=0.1),
    Row(jsp.stats.gamma, "pdf logpdf cdf", TWO, low=0.5, high=3.0, edges=False),
    Row(jsp.stats.beta, "pdf logpdf cdf", ((3, 4),) * 3, low=0.2, high=0.8, edges=False),
    Row(jsp.stats.t, "pdf logpdf", TWO, low=0.5, high=3.0, edges=False),
    Row(jsp.stats.poisson, "pmf logpmf", TWO, low=1, high=4, smooth=False, edges=False),
    Row(jsp.stats, "rankdata sem mode", ((9,),), smooth=False, **PLAIN),
    Row(jsp.signal, "convolve correlate fftconvolve", ((9,), (4,)), **PLAIN),
    Row(jsp.signal, "detrend", ((9,),), **PLAIN),
    Row(jsp.linalg, "det inv expm", SQUARE, **PLAIN),
    Row(jsp.linalg, "lu", SQUARE, smooth=False, **PLAIN),
    Row(jsp.linalg, "solve", ((4, 4), (4, 2)), **PLAIN),
    Row(jsp.linalg, "solve_triangular", ((4, 4), (4,)), low=1.0, **PLAIN),
    Row(jsp.linalg, "toeplitz", ((5,),), **PLAIN),
    Row(jsp.linalg, "block_diag", ((2, 3), (3, 2)), **PLAIN),
]  # fmt: skip

KEYED: dict[str, dict[str, Any]] = {
    "bits": {}, "uniform": {}, "normal": {}, "exponential": {}, "gumbel": {}, "laplace": {}, "logistic": {},
    "cauchy": {}, "rademacher": {}, "bernoulli": {"p": 0.3}, "truncated_normal": {"lower": -1.0, "upper": 2.0},
    "gamma": {"a": 1.7}, "loggamma": {"a": 0.4}, "beta": {"a": 1.2, "b": 2.3},
    "dirichlet": {"alpha": np.ones(3, np.float32)},
    "poisson": {"lam": 3.0}, "geometric": {"p": 0.3}, "binomial": {"n": 9.0, "p": 0.4}, "chisquare": {"df": 3.0},
    "f": {"dfnum": 3.0, "dfden": 5.0}, "t": {"df": 3.0}, "pareto": {"b": 2.0}, "rayleigh": {"scale": 1.5},
    "wald": {"mean": 1.0}, "weibull_min": {"scale": 1.0, "concentration": 2.0}, "maxwell": {}, "double_sided_maxwell":
    {"loc": 0.5, "scale": 2.0}, "triangular": {"left": 0.0, "mode": 0.5, "right": 2.0}, "lognormal": {},
    "randint": {"minval": -5, "maxval": 100}, "ball": {"d": 3}, "orthogonal": {"n": 3},
    "generalized_normal": {"p": 1.5},
    "categorical": {"logits": np.zeros((4,), np.float32)},
}  # fmt: skip

#: Cases that differ, and why that is right.
LEDGER = {
    "nn.standardize-edges": "the variance of numbers up to 1e30 is all rounding: the order of the sum decides",
    "scipy.special.poch-bfloat16": "the CPU's compiled code keeps f32 between operators; op by op it is the device's",
    "scipy.stats.cauchy.logcdf-edges": "at -inf the CPU's compiled code multiplies and adds at once, and leaves of 1/2 "
    "- 1/2 a rest whose logarithm it takes; op by op it gives -inf, as the device",
    "numpy.histogram-float16": "edges are i / 10 of the range: the CPU multiplies by f16's 0.1, the device divides",
}

Case = tuple[str, Function, list[Any], dict[str, float]]


def _values(shape: tuple[int, ...], dtype: str, row: Row, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    if np.dtype(jnp.dtype(dtype)).kind in "iub":
        return generator.integers(max(row.low, 0) if "uint" in dtype else row.low, row.high + 1, shape).astype(dtype)
    values = generator.uniform(row.low, row.high, shape)
    if dtype.startswith("complex"):
        values = values + 1j * generator.uniform(row.low, row.high, shape)
    return values.astype(jnp.dtype(dtype))


def _sum_of_parts(function: Function) -> Function:
    """A number of what it gives, which has a gradient."""

    def scalar(*arguments: Any) -> Any:
        leaves = [leaf for leaf in jax.tree.leaves(function(*arguments)) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return sum(jnp.abs(leaf).astype(jnp.float32).sum() for leaf in leaves)

    return scalar


def _cases_of_row(row: Row, name: str) -> Iterator[Case]:
    inner = getattr(row.module, name)
    options = dict(row.options)

    def function(*arguments: Any) -> Any:
        return inner(*arguments, **options)

    full = f"{row.module.__name__.removeprefix('jax.')}.{name}".replace("_src.", "")
    for dtype in row.dtypes.split():
        arguments = [_values(shape, dtype, row, seed) for seed, shape in enumerate(row.shapes)]
        yield f"{full}-{dtype}", jax.jit(function), arguments, TOLERANCES
    dtype = row.dtypes.split()[0]
    if jax.config.read("jax_enable_x64"):
        dtype = {"float32": "float64", "int32": "int64"}.get(dtype, dtype)
    arguments = [_values(shape, dtype, row, seed) for seed, shape in enumerate(row.shapes)]
    yield f"{full}-eager-{dtype}", function, arguments, TOLERANCES
    yield f"{full}-vmap", jax.jit(jax.vmap(function)), [np.stack([a, a * 1]) for a in arguments], TOLERANCES
    if row.edges:
        special = (EDGES if np.dtype(jnp.dtype(dtype)).kind in "fc" else INTEGERS).astype(dtype)
        first = np.tile(special[:, None], (1, len(special)))
        given = [first, first.T.copy(), first[::-1].copy()][: len(row.shapes)]
        if all(len(shape) == 2 for shape in row.shapes):
            yield f"{full}-edges", jax.jit(function), given, TOLERANCES
    if row.empty:
        empty = [np.zeros((*shape[:-1], 0), dtype) for shape in row.shapes]
        yield f"{full}-empty", jax.jit(function), empty, TOLERANCES
    if row.scalar:
        yield f"{full}-0d", jax.jit(function), [a.ravel()[0].reshape(()) for a in arguments], TOLERANCES
    if row.smooth and dtype.startswith("float"):
        every = tuple(range(len(arguments)))
        yield f"{full}-grad", jax.jit(jax.grad(_sum_of_parts(function), every)), arguments, GRADIENT_TOLERANCES
        tangents = [np.cos(a).astype(a.dtype) for a in arguments]

        def forward(*both: Any) -> Any:
            return jax.jvp(function, both[: len(both) // 2], both[len(both) // 2 :])

        yield f"{full}-jvp", jax.jit(forward), [*arguments, *tangents], GRADIENT_TOLERANCES


def _cases_of_random(name: str, options: dict[str, Any]) -> Iterator[Case]:
    inner = getattr(jax.random, name)
    size = {} if name in {"orthogonal"} else {"shape": (5, 4) if name not in {"dirichlet"} else (5,)}
    for kind in ("threefry2x32", "rbg"):

        def function(seed: Any, kind: str = kind) -> Any:
            return inner(jax.random.key(seed, impl=kind), **options, **size)

        yield f"random.{name}-{kind}", jax.jit(function), [np.uint32(7)], TOLERANCES
        yield f"random.{name}-{kind}-vmap", jax.jit(jax.vmap(function)), [np.arange(3, dtype=np.uint32)], TOLERANCES


def cases(part: int, parts: int) -> Iterator[Case]:
    """Yields the cases of every parts-th function, from the part-th on."""
    functions = [(row, name) for row in ROWS for name in row.names.split()]
    for row, name in functions[part::parts]:
        yield from _cases_of_row(row, name)
    for name, options in list(KEYED.items())[part::parts]:
        yield from _cases_of_random(name, options)


def _results(function: Function, arguments: list[Any], device: jax.Device) -> list[Array] | str:
    """Returns the results of the function, or the type and the message of the error that it raises."""
    try:
        with jax.default_device(device):
            return [np.asarray(leaf) for leaf in jax.tree.leaves(function(*jax.device_put(arguments, device)))]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _difference(actual: list[Array] | str, expected: list[Array] | str, tolerances: dict[str, float]) -> str:
    if isinstance(expected, str):  # what the function does not take: both refuse it
        return "" if isinstance(actual, str) else f"gives a result, and the CPU {expected[:200]}"
    if isinstance(actual, str):
        return actual[:300]
    for ours, theirs in zip(actual, expected, strict=True):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return f"is {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        if ours.dtype == jax.dtypes.float0:  # the tangents of integers
            continue
        tolerance = tolerances.get(str(ours.dtype), 0)
        wide = [a.astype(np.float32) if a.dtype.kind not in "biufc" else a for a in (ours, theirs)]
        try:
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
        except AssertionError as error:
            return " ".join(str(error).split())[:400]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--x64", action="store_true")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    part, parts = (int(number) for number in given.part.split("/"))
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    jax.config.update("jax_enable_x64", given.x64)
    jax.config.update("jax_default_matmul_precision", "highest")
    device, cpu = jax.devices(pjrt_mydev.device_name())[0], jax.devices("cpu")[0]
    count, refused, wrong = 0, 0, {}
    for name, function, arguments, tolerances in cases(part, parts):
        if given.words and not any(word in name for word in given.words):
            continue
        count += 1
        expected = _results(function, arguments, cpu)
        refused += isinstance(expected, str)
        message = _difference(_results(function, arguments, device), expected, tolerances)
        if message and name not in LEDGER:
            wrong[name] = message
            print(f"{name}: {message}", flush=True)
    print(json.dumps({"cases": count, "refused": refused, "wrong": wrong}))


if __name__ == "__main__":
    main()
