"""Fourier transforms of JAX on the device and on JAX's CPU, in f32 and in f64: prints what differs as JSON.

The tolerances are those of JAX's tests of jax.numpy.fft: 1e-4 in f32, and 1e-9 in f64 here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import pjrt_mydev

Case = tuple[Callable[..., Any], list[np.ndarray[Any, Any]]]

#: One and two, odd and even numbers, primes and large numbers.
LENGTHS = (1, 2, 3, 4, 7, 8, 12, 97, 360, 2048, 10007)
SHAPES = ((5,), (4, 6), (3, 1, 7), (2, 3, 4, 5), (0, 6), (9, 32, 32))
NORMS = ("backward", "ortho", "forward")


def cases() -> dict[str, Case]:
    """All cases by name. Arguments are drawn anew for each, as f64 or c128."""
    draw = np.random.default_rng(0)

    def real(*shape: int) -> np.ndarray[Any, Any]:
        return draw.standard_normal(shape)

    def spectrum(*shape: int) -> np.ndarray[Any, Any]:
        return real(*shape) + 1j * real(*shape)

    found: dict[str, Case] = {}
    for n in LENGTHS:
        found[f"fft-{n}"] = (jnp.fft.fft, [spectrum(3, n)])
        found[f"ifft-{n}"] = (jnp.fft.ifft, [spectrum(n)])
        found[f"rfft-{n}"] = (jnp.fft.rfft, [real(n)])
        # The imaginary parts of the first and of the last element are not 0.
        found[f"irfft-{n}"] = (lambda x, n=n: jnp.fft.irfft(x, n), [spectrum(2, n // 2 + 1)])
        found[f"hfft-{n}"] = (lambda x, n=n: jnp.fft.hfft(x, n), [spectrum(n // 2 + 1)])
        found[f"ihfft-{n}"] = (jnp.fft.ihfft, [real(n)])
    for name in (
        "fft",
        "ifft",
        "rfft",
        "irfft",
        "fft2",
        "ifft2",
        "rfft2",
        "irfft2",
        "fftn",
        "ifftn",
        "rfftn",
        "irfftn",
    ):
        function = getattr(jnp.fft, name)
        is_of_reals = name.startswith("r")
        for shape in SHAPES:
            takes_two, takes_three = "2" in name, name.endswith("n")
            if (takes_two and len(shape) < 2) or (takes_three and (len(shape) > 3 or 0 in shape)):
                continue
            for norm in NORMS:
                argument = real(*shape) if is_of_reals else spectrum(*shape)
                found[f"{name}-{shape}-{norm}"] = (lambda x, f=function, m=norm: f(x, norm=m), [argument])
    for kind in ("FFT", "IFFT", "IRFFT"):  # JAX itself fails with RFFT
        found[f"lax-{kind}-0"] = (lambda x, k=kind: lax.fft(x, lax.FftType[k], (0,)), [np.zeros((2, 0), complex)])
    transforms: dict[str, tuple[Callable[..., Any], Any]] = {
        "fft2": (jnp.fft.fft2, spectrum(4, 6)),
        "rfft": (jnp.fft.rfft, real(4, 9)),
        "irfft": (jnp.fft.irfft, spectrum(4, 6)),
        "fftn": (jnp.fft.fftn, spectrum(2, 3, 4)),
        "rfftn": (jnp.fft.rfftn, real(2, 3, 4)),
    }
    for name, (function, argument) in transforms.items():
        size = lambda x, f=function: jnp.sum(jnp.abs(f(x)) ** 2)  # noqa: E731
        found[f"gradient-{name}"] = (jax.grad(size), [argument])
        batch = np.stack([argument, 2 * argument, argument[::-1]], axis=1)
        found[f"vmap-{name}"] = (jax.vmap(function, in_axes=1, out_axes=-1), [batch])
    found["axis 0"] = (lambda x: jnp.fft.fft(x, axis=0), [spectrum(8, 5)])
    found["axes 2, 0"] = (lambda x: jnp.fft.rfftn(x, axes=(2, 0)), [real(4, 3, 6)])
    found["padded and cut"] = (lambda x: (jnp.fft.fft(x, 12), jnp.fft.rfft(x.real, 5)), [spectrum(3, 8)])
    found["of a transposed operand"] = (lambda x: jnp.fft.fft(x.T + 0).T, [spectrum(6, 4)])
    found["of an expanded operand"] = (lambda x: jnp.fft.rfft2(jnp.broadcast_to(x, (3, 4, 6))), [real(4, 6)])
    found["in a loop"] = (
        lambda x: lax.fori_loop(0, 3, lambda i, a: jnp.fft.ifft(jnp.fft.fft(a) * i), x),
        [spectrum(9)],
    )
    for value in (np.nan, np.inf):
        found[f"{value} in one line"] = (
            jnp.fft.fft,
            [np.where(np.eye(4, 8) * [[1], [0], [0], [0]], value, real(4, 8))],
        )
    return found


def _message(case: Case, device: jax.Device, cpu: jax.Device, wide: bool) -> str:
    function, given = case
    arguments = [a if wide else a.astype(np.complex64 if np.iscomplexobj(a) else np.float32) for a in given]

    def on(where: jax.Device) -> list[np.ndarray[Any, Any]]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*jax.device_put(arguments, where)))]

    tolerance = 1e-9 if wide else 1e-4
    try:
        for actual, expected in zip(on(device), on(cpu), strict=True):
            assert actual.dtype == expected.dtype
            scale = np.max(np.abs(expected), initial=1, where=np.isfinite(expected))
            # Each part of its own: beside an infinite real part the imaginary one is rounded as well.
            for part in (np.real, np.imag):
                np.testing.assert_allclose(part(actual), part(expected), rtol=tolerance, atol=tolerance * scale)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Prints {"cases": how many, "wrong": {name: message}}."""
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    device, cpu = jax.devices(pjrt_mydev.device_name())[0], jax.devices("cpu")[0]
    all_cases = cases()
    wrong = {}
    for wide in (False, True):
        jax.config.update("jax_enable_x64", wide)
        for name, case in all_cases.items():
            if message := _message(case, device, cpu, wide):
                wrong[f"{'f64' if wide else 'f32'} {name}"] = message
    print(json.dumps({"cases": 2 * len(all_cases), "wrong": wrong}))


if __name__ == "__main__":
    main()
