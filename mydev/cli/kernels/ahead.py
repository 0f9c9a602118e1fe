"""Compiling portable kernels before they are needed: into the cache of compiled modules, where later processes look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mydev.cli.conform.suite import Result, list_cases, run_cases, select

TIMEOUT = 900.0  # seconds for a kernel, which some compilers need minutes for
_SUITE = "portable_modules"


def compile_kernels(patterns: Sequence[str], timeout: float) -> Iterator[Result]:
    """Compiles the portable kernels that a pattern matches (all without a pattern) for the driver of the environment,
    in the forms of the conformance suite, each kernel in a process of its own.

    A result is ``skipped`` for a kernel that the device does not have, and ``failed``, with the compiler's text, for
    one whose source it refuses. Raises ConformError for a pattern that matches none.
    """
    cases = select(list_cases(_SUITE), patterns, noun="portable kernel", advice="without a name, all are compiled")
    return run_cases(_SUITE, cases, driver=None, timeout=timeout)
