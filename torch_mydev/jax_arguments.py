"""Arguments of functions that one framework calls and the other computes: trees of arrays and constants.

Trees are JAX's. Whatever is no array is a constant of the function, which is made anew for other constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_ARRAY = object()  # in the place of an array among the leaves


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call without its arrays. Equal and of one hash where the constants are the same."""

    tree: Any
    leaves: tuple[tuple[type, Any], ...]  # with their types, since True and 1 are equal, and so are 1 and 1.0

    def filled(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, by position and by name, with these arrays."""
        import jax

        left = iter(arrays)
        leaves = [next(left) if leaf is _ARRAY else leaf for _, leaf in self.leaves]
        args, kwargs = jax.tree.unflatten(self.tree, leaves)
        return args, kwargs


def divide(
    name: str, kinds: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Arguments, list[Any]]:
    """The constants and the arrays of a call, which are instances of these types.

    Raises TypeError, with the function's name, for constants that have no hash.
    """
    import jax

    leaves, tree = jax.tree.flatten((args, kwargs))
    arrays = [leaf for leaf in leaves if isinstance(leaf, kinds)]
    constants = (_ARRAY if isinstance(leaf, kinds) else leaf for leaf in leaves)
    arguments = Arguments(tree, tuple((type(leaf), leaf) for leaf in constants))
    try:
        hash(arguments)
    except TypeError as error:
        what = "tensor" if kinds[0].__module__ == "torch" else "array"
        raise TypeError(f"{name}: an argument that is no {what} is a constant, and needs a hash: {error}") from error
    return arguments, arrays
