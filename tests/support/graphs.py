"""Capturing a function into a graph, as its users should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def capture(function: Callable[[], Any], warm_up: int = 1, **options: Any) -> tuple[torch.mydev.MyDevGraph, Any]:
    """The graph of a function, which ran before, and what it returned while it was captured."""
    side = torch.mydev.Stream()
    side.wait_stream(torch.mydev.current_stream())
    with torch.mydev.stream(side):
        for _ in range(warm_up):
            function()
    torch.mydev.current_stream().wait_stream(side)
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph, **options):
        result = function()
    return graph, result
