"""Pallas: kernels that JAX's interpreter makes operations of, on devices that Pallas has no compiler for."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger(__name__)


class _Rules(dict[Any, Any]):
    """The lowering rules of a platform, with one that is made when it is first looked for.

    Its primitive is in a module that takes half a second to import, and few programs do.
    """

    def __contains__(self, primitive: object) -> bool:
        if super().__contains__(primitive):
            return True
        if getattr(primitive, "name", None) != "pallas_call":
            return False
        from jax._src.interpreters import mlir

        mlir.register_lowering(primitive, _lower_by_interpreter, platform=self.platform)
        return super().__contains__(primitive)

    platform: str


def interpret_pallas(platform: str) -> None:
    """Lowers ``pallas_call`` on the platform as JAX does with ``interpret=True``."""
    from jax._src.interpreters import mlir

    all_rules = getattr(mlir, "_platform_specific_lowerings", None)
    if all_rules is None:
        logger.warning("this version of JAX keeps its lowering rules elsewhere; pallas_call needs interpret=True")
        return
    rules = _Rules(all_rules.get(platform, {}))
    rules.platform = platform
    all_rules[platform] = rules


def _lower_by_interpreter(ctx: Any, *operands: Any, interpret: Any, **parameters: Any) -> Any:
    from jax._src.pallas import pallas_call

    # Another interpreter may be asked for by its parameters.
    return pallas_call._pallas_call_lowering(ctx, *operands, interpret=interpret or True, **parameters)
