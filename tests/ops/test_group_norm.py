"""group_norm against the CPU: shapes, memory formats, types, what is missing; forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

SHAPES = {
    "image": ((2, 6, 4, 5), 3),
    "one_group": ((2, 6, 4, 5), 1),
    "group_of_one": ((2, 6, 4, 5), 6),
    "no_places": ((4, 6), 3),
    "line": ((2, 6, 50), 2),
    "volume": ((2, 6, 3, 4, 5), 3),
    "wide": ((2, 320, 3, 3), 32),
    "more_than_a_chunk": ((1, 2100, 2, 3), 2),
    "long": ((1, 4, 40, 40), 2),
}
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
CASES = [pytest.param(name, False, id=name) for name in SHAPES] + [
    pytest.param(name, True, id=f"{name}-channels_last") for name, (shape, _) in SHAPES.items() if len(shape) in FORMATS
]


def compare(
    x: torch.Tensor, groups: int, parameters: list[torch.Tensor | None], tolerances: dict[str, float] | None = None
) -> None:
    """Compares results, strides and gradients of the device and the CPU."""
    answers = []
    for place in ("cpu", "mydev"):
        operands = [None if t is None else t.detach().to(place).requires_grad_() for t in (x, *parameters)]
        image, weight, bias = operands
        assert image is not None
        out = functional.group_norm(image, groups, weight, bias)
        weights = torch.arange(out.numel(), dtype=torch.float64).cos().reshape(out.shape).to(x.dtype)
        out.backward(weights.to(place))
        answers.append([out.detach(), *(t.grad for t in operands if t is not None)])
    expected, actual = answers
    torch.testing.assert_close([a.cpu() for a in actual], expected, **(tolerances or {}))
    assert [a.stride() for a in actual] == [e.stride() for e in expected]


@pytest.mark.parametrize(("name", "channels_last"), CASES)
def test_agrees_with_cpu(name: str, channels_last: bool) -> None:
    torch.manual_seed(0)
    shape, groups = SHAPES[name]
    x = torch.randn(shape) + 3
    if channels_last:
        x = x.contiguous(memory_format=FORMATS[len(shape)])
    compare(x, groups, [torch.randn(shape[1]), torch.randn(shape[1])], {"rtol": 1e-3, "atol": 1e-3})


@pytest.mark.parametrize("weight", [False, True])
def test_without_weight_or_bias(weight: bool) -> None:
    torch.manual_seed(0)
    compare(torch.randn(2, 6, 4, 5), 3, [torch.randn(6) if weight else None, None])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_other_dtypes(dtype: torch.dtype, mixed: bool, channels_last: bool) -> None:
    torch.manual_seed(0)
    is_half = dtype != torch.float64
    parameters: list[torch.Tensor | None] = [
        torch.randn(6, dtype=torch.float32 if mixed and is_half else dtype) for _ in range(2)
    ]
    x = torch.randn(2, 6, 4, 5, dtype=dtype)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    compare(x, 3, parameters, {"rtol": 4e-2, "atol": 4e-2} if is_half else None)


@pytest.mark.parametrize("wanted", [[True, False, True], [False, True, False]])
def test_only_the_gradients_that_are_wanted(wanted: list[bool]) -> None:
    torch.manual_seed(0)
    x, grad, weight = torch.randn(2, 6, 4), torch.randn(2, 6, 4), torch.randn(6)
    answers = []
    for place in ("cpu", "mydev"):
        image, parameter = x.to(place), weight.to(place)
        _, mean, rstd = torch.native_group_norm(image, parameter, None, 2, 6, 4, 3, 1e-5)
        answers.append(
            torch.ops.aten.native_group_norm_backward(grad.to(place), image, mean, rstd, parameter, 2, 6, 4, 3, wanted)
        )
    for expected, actual in zip(*answers, strict=True):
        assert (actual is None) == (expected is None)
        if expected is not None:
            torch.testing.assert_close(actual.cpu(), expected)


def test_nan_stays_in_its_group() -> None:
    x = torch.randn(1, 4, 3)
    x[0, 1, 1] = torch.nan
    actual = functional.group_norm(x.to("mydev"), 2).cpu()
    assert bool(actual[0, :2].isnan().all())
    assert bool(actual[0, 2:].isfinite().all())
