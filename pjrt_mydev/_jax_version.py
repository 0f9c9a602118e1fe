"""Which versions of JAX the plugin works with. Imports nothing."""

from __future__ import annotations

import re

OLDEST = (0, 10)


def explain_unsupported(version: str) -> str:
    """Why the plugin does not work with that JAX; "" if it does, as far as can be told beforehand."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is not None and (int(match[1]), int(match[2])) >= OLDEST:
        return ""
    oldest = ".".join(map(str, OLDEST))
    return f"jax {version} is installed, and the PJRT plugin works with jax {oldest} or newer; install that"
