"""Types of the command line's arguments that argparse does not have."""

from __future__ import annotations

from collections.abc import Callable


def above_zero(kind: type[int] | type[float]) -> Callable[[str], float]:
    """A type of argument: numbers above zero, of a size that makes sense."""

    def parse(text: str) -> float:
        value = kind(text)
        if not 0 < value < 1e6:
            raise ValueError
        return value

    parse.__name__ = f"number above 0 ({kind.__name__})"  # what argparse calls it
    return parse
