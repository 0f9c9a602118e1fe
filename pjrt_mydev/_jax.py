"""Registering with JAX: the one module here that imports it, and the one place that uses what JAX keeps to itself."""

from __future__ import annotations

import importlib
import logging
from types import SimpleNamespace
from typing import Any

from mydev.drivers import choose, chosen
from pjrt_mydev._callbacks import enable_callbacks
from pjrt_mydev._ffi import register_target
from pjrt_mydev._jax_version import explain_unsupported
from pjrt_mydev._library import check_library, device_name, library_path
from pjrt_mydev._linalg import use_rules_of_the_cpu
from pjrt_mydev._pallas import interpret_pallas
from pjrt_mydev._random import use_kernel_for_threefry

logger = logging.getLogger(__name__)

# JAX's own platforms have 0 (CPU) and more. Below that the plugin is used where it is asked for (JAX_PLATFORMS), and is
# not the default for everyone who has this package installed.
PRIORITY = -100


_registered: list[str | None] = []  # the driver that was asked for, once the platform is registered


def register(driver: str | None = None) -> None:
    """Registers the platform, once: JAX calls this for the entry point of an installed package, and a program may call
    it as well. Raises RuntimeError, as `initialize` says.
    """
    if not _registered:
        _register(driver)
        _registered.append(driver)
    elif driver not in (None, _registered[0]):
        raise RuntimeError(
            f"driver '{driver}' comes too late: JAX knows the devices already, those of "
            f"{_registered[0] or 'the environment variable MYDEV_DRIVER'}"
        )


def _register(driver: str | None) -> None:
    import jax
    from jax._src import xla_bridge

    problem = explain_unsupported(jax.__version__)
    if problem:
        raise RuntimeError(problem)
    wanted = chosen(driver) if driver is None else choose(driver)
    if wanted.problem:
        raise RuntimeError(wanted.problem)
    if wanted.device_name != chosen(driver).device_name:
        raise RuntimeError(f"driver '{driver}' comes too late: this process calls its device '{device_name()}' already")
    path = library_path()
    check_library(path)
    options = None if driver is None else {"driver": wanted.driver or driver}
    xla_bridge.register_plugin(device_name(), priority=PRIORITY, library_path=str(path), options=options)
    _allow_donation()
    _allow_compilation_cache()
    xla_client: Any = importlib.import_module("jax._src.lib").xla_client
    xla_client.register_custom_call_handler(device_name(), register_target)
    use_rules_of_the_cpu(device_name())
    use_kernel_for_threefry(device_name())
    interpret_pallas(device_name())
    enable_callbacks(device_name())


def _allow_donation() -> None:
    """JAX lowers donation for platforms of a list alone; without it programs are right, and need more memory."""
    from jax._src.interpreters import mlir

    platforms = getattr(mlir, "_platforms_with_donation", None)
    if not isinstance(platforms, list):
        logger.warning("this version of JAX has no list of platforms with donation; arguments are not donated")
    elif device_name() not in platforms:
        platforms.append(device_name())


def _allow_compilation_cache() -> None:
    """JAX keeps what it compiled (``jax_compilation_cache_dir``) for platforms of a list alone, inside of a function.

    A program from the cache is right in any process: its key has this library's version and the driver's name, and
    numbers of callbacks are drawn, so that one of another process is an error.
    """
    from jax._src import compilation_cache

    is_cache_used = getattr(compilation_cache, "is_cache_used", None)
    if is_cache_used is None:
        logger.warning("this version of JAX does not say whether its compilation cache is used; programs are not kept")
        return

    def for_all_platforms(backend: Any) -> bool:
        if backend.platform == device_name():
            backend = SimpleNamespace(platform="cpu")
        return bool(is_cache_used(backend))

    compilation_cache.is_cache_used = for_all_platforms
