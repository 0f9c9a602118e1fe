"""Functions that torch.compile evaluates while it compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def constant_in_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes torch.compile evaluate the function, on constants, while it compiles: torch.compiler.
    assume_constant_result, which would import the compiler."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
