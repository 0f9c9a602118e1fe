"""Linear algebra: JAX's rules for the CPU, whose calls of LAPACK are jaxlib's own handlers."""

from __future__ import annotations

import ctypes
import logging
from typing import Any

from pjrt_mydev._ffi import register_target
from pjrt_mydev._library import library_path

logger = logging.getLogger(__name__)

# Rules that fit the CPU's own compiler only.
_LEFT_OUT = ("dot_general", "conv_general_dilated", "select_and_scatter_add", "threefry2x32")


def _find_lapack() -> None:
    """Tells jaxlib's handlers where LAPACK is, as JAX does in processes that lower a call of it."""
    from jaxlib import lapack

    lapack._lapack.initialize()


_called_by_the_plugin = ctypes.CFUNCTYPE(None)(_find_lapack)  # for good


def use_rules_of_the_cpu(platform: str) -> None:
    """Gives the platform JAX's lowering rules for the CPU, and what they call.

    They are functions of the host: where it does not reach the device's memory, the plugin copies.
    """
    from jax._src.interpreters import mlir

    rules: dict[Any, Any] = getattr(mlir, "_platform_specific_lowerings", {})
    own = rules.get("cpu")
    if not own:
        logger.warning("this version of JAX keeps its lowering rules elsewhere; linear algebra is not complete")
        return
    for primitive, rule in list(own.items()):
        if not any(word in primitive.name for word in _LEFT_OUT):
            rules[platform].setdefault(primitive, rule)
    from jaxlib import lapack

    ctypes.CDLL(str(library_path())).mydev_pjrt_set_preparation(_called_by_the_plugin)
    for name, target, api_version in lapack.registrations().get("cpu", []):
        register_target(name, target, platform, api_version)
