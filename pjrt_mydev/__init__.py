"""The PJRT plugin of this project, for JAX and other clients of the PJRT C API. Imports neither torch nor JAX.

JAX finds it by its entry point (group ``jax_plugins``) and calls `initialize`; other clients load `library_path()`.
Devices are those of the driver that the environment variable ``MYDEV_DRIVER`` names.
"""

from __future__ import annotations

from pjrt_mydev._library import device_name, library_path

__all__ = ["device_name", "initialize", "library_path"]


def initialize() -> None:
    """Registers the devices with JAX, which calls this when it looks for its platforms.

    Raises RuntimeError where the library cannot be loaded or JAX is too old; JAX logs that and goes on without.
    """
    from pjrt_mydev._jax import register

    register()
