"""Measures a fallback's cost: operators without a kernel of ours, which run the CPU's kernel on the device's memory.

The difference between the two columns is the price of one fallback.

Run from the repository: ``python benchmarks/fallback.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from interleaved import Benchmark

import torch_mydev

CASES: list[tuple[str, Callable[[torch.Tensor, torch.Tensor], object]]] = [
    ("typed: cumsum, 16", lambda a, b: torch.cumsum(a, 0)),
    ("typed: sort, 16", lambda a, b: torch.sort(a)),
    ("typed: lgamma, 16", lambda a, b: torch.lgamma(a)),
    ("typed in place: erfinv_, 16", lambda a, b: a.erfinv_()),
    ("typed out=: lgamma, 16", lambda a, b: torch.lgamma(a, out=b)),
    ("boxed: special_bessel_j0, 16", lambda a, b: torch.special.bessel_j0(a)),
    ("boxed: special_zeta, 16", lambda a, b: torch.special.zeta(a, b)),
    ("boxed out=: bessel_j0, 16", lambda a, b: torch.special.bessel_j0(a, out=b)),
    ("boxed list: block_diag, 16", lambda a, b: torch.block_diag(a, b)),
]


def main() -> None:
    benchmark = Benchmark("fallback")
    for size in (16, 1_000_000):
        for name, function in CASES if size == 16 else CASES[:1] + CASES[5:6]:
            a, b = torch.rand(size) * 0.5, torch.rand(size)
            there = a.to(torch_mydev.device_name), b.to(torch_mydev.device_name)
            name = name.replace("16", "1M") if size > 16 else name
            benchmark.row(
                name,
                cpu=lambda f=function, a=a, b=b: f(a, b),  # type: ignore[misc]
                mydev=lambda f=function, there=there: f(*there),  # type: ignore[misc]
            )
    worst = max((row for row in benchmark.rows if "16" in row.name), key=lambda r: r.device_seconds - r.rival_seconds)
    print(f"dearest fallback: {worst.name}, {(worst.device_seconds - worst.rival_seconds) * 1e9:.0f} ns above the CPU")


if __name__ == "__main__":
    main()
