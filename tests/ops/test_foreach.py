"""torch.foreach, which is public from torch 2.15 on: each function gives what it gives on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support.torch_version import needs_torch

pytestmark = needs_torch("2.15")

foreach: Any = getattr(torch, "foreach", None)
NAMES: list[str] = foreach.__all__ if foreach else []
SHAPES = [(3, 3), (4, 4), (1, 1)]


def operands(name: str, device: str) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(5)

    def tensors() -> list[torch.Tensor]:
        values = [torch.rand(shape, generator=generator) * 0.9 + 0.05 for shape in SHAPES]
        return [value.to(device) for value in values]

    operation = name.rstrip("_")
    if operation in ("addcdiv", "addcmul"):
        return tensors(), tensors(), tensors()
    if operation == "lerp":
        return tensors(), tensors(), 0.3
    if operation in ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min", "pow", "copy", "mm"):
        return tensors(), tensors()
    return (tensors(),)


@pytest.mark.parametrize("name", NAMES)
def test_is_as_on_the_cpu(name: str) -> None:
    results = {}
    for device in ("cpu", "mydev"):
        given = operands(name, device)
        returned = getattr(foreach, name)(*given)
        results[device] = [tensor.cpu() for tensor in (given[0] if name.endswith("_") else returned)]
        assert {tensor.device.type for tensor in returned} == {device}
    torch.testing.assert_close(results["mydev"], results["cpu"])
