"""The worker process for JAX's tests: a program, with a folder and a file for arguments.

JAX_PLATFORMS says which side it is: the tests use the first platform that is there.
"""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from importlib.metadata import version
from types import ModuleType

from mydev.cli.conform.upstream.worker import Framework, serve


def _about() -> dict[str, str]:
    import jax

    first = jax.devices()[0]
    return {"version": version("jax"), "device": f"{first.platform} ({first.device_kind})"}


def _load(module: ModuleType) -> dict[str, tuple[type[unittest.TestCase], str]]:
    tests = _flat(unittest.defaultTestLoader.loadTestsFromModule(module))
    return {f"{type(test).__name__}.{test._testMethodName}": (type(test), test._testMethodName) for test in tests}


def _flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


if __name__ == "__main__":
    serve(Framework(_about, _load))
