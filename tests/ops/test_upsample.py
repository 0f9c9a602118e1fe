"""Interpolation by the nearest element and linearly, in one to three dimensions, against the CPU: sizes and scales,
corners, memory formats, gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from torch_mydev import fallback_mode

SIZES = {1: (2, 3, 7), 2: (2, 3, 5, 7), 3: (2, 3, 3, 5, 4)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
FORMATS = {
    1: [torch.contiguous_format],
    2: [torch.contiguous_format, torch.channels_last],
    3: [torch.contiguous_format, torch.channels_last_3d],
}
CASES = [
    pytest.param(axes, mode, memory_format, id=f"{mode}-{axes}d-{str(memory_format)[6:]}")
    for axes in SIZES
    for mode in ("nearest", "nearest-exact", LINEAR[axes])
    for memory_format in FORMATS[axes]
]
#: How the size of the result is given.
TARGETS: dict[str, dict[str, object]] = {
    "doubled": {"scale_factor": 2},
    "scaled": {"scale_factor": 1.7},
    "scaled_exactly": {"scale_factor": 1.7, "recompute_scale_factor": True},
    "shrunk": {"scale_factor": 0.6},
    "size": {"size": 9},
    "one": {"size": 1},
}


def both(x: torch.Tensor, options: dict[str, object]) -> None:
    """Compares results, strides and gradients of the device and the CPU."""
    results = []
    for place in ("cpu", "mydev"):
        operand = x.detach().to(place).requires_grad_(x.is_floating_point())
        out = functional.interpolate(operand, **options)  # type: ignore[arg-type]
        if x.is_floating_point():
            weights = torch.arange(out.numel(), dtype=torch.float64).cos().reshape(out.shape).to(x.dtype)
            out.backward(weights.to(place))
        results.append((out.detach(), operand.grad))
    (expected, expected_grad), (actual, actual_grad) = results
    torch.testing.assert_close(actual.cpu(), expected)
    assert actual.stride() == expected.stride()
    if expected_grad is None:
        return
    assert actual_grad is not None
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if x.dtype in (torch.float16, torch.bfloat16) else {}
    torch.testing.assert_close(actual_grad.cpu(), expected_grad, **tolerance)
    assert actual_grad.stride() == expected_grad.stride()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("axes", "mode", "memory_format"), CASES)
def test_agrees_with_cpu(axes: int, mode: str, memory_format: torch.memory_format, target: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(SIZES[axes]).contiguous(memory_format=memory_format)
    both(x, {"mode": mode, **TARGETS[target]})
    if mode in LINEAR.values() and "recompute_scale_factor" not in TARGETS[target]:
        both(x, {"mode": mode, "align_corners": True, **TARGETS[target]})


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.uint8])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_other_dtypes(mode: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (torch.rand(2, 3, 5, 7) * 8).to(dtype)
    both(x, {"mode": mode, "scale_factor": 1.7})


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_more_channels_than_a_chunk(mode: str) -> None:
    torch.manual_seed(0)
    both(torch.randn(2, 4, 5, 1100).permute(0, 3, 1, 2), {"mode": mode, "size": (7, 9)})


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_strided_images(mode: str) -> None:
    torch.manual_seed(0)
    base = torch.randn(2, 3, 7, 5)
    expected, actual = (
        functional.interpolate(base.to(place).transpose(2, 3)[:, :, ::2], size=(7, 9), mode=mode)
        for place in ("cpu", "mydev")
    )
    torch.testing.assert_close(actual.cpu(), expected)
    assert actual.stride() == expected.stride()


@pytest.mark.parametrize("size", [[2, 3], [4, 6], [1, 3], [3, 4]])
@pytest.mark.parametrize("name", ["upsample_nearest2d", "_upsample_nearest_exact2d"])
def test_scales_that_contradict_sizes(name: str, size: list[int]) -> None:
    image = torch.randn(1, 2, 2, 3)
    expected, actual = (getattr(torch.ops.aten, name)(image.to(place), size, 0.7, 2.5) for place in ("cpu", "mydev"))
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_what_the_cpu_refuses_is_refused(mode: str) -> None:
    message = r"Input and output sizes should be greater than 0"
    for place in ("cpu", "mydev"):
        with pytest.raises(RuntimeError, match=message):
            functional.interpolate(torch.randn(1, 2, 3, 0, device=place), size=(2, 2), mode=mode)


def test_the_nearest_element_needs_no_fallback() -> None:
    with fallback_mode("error"):
        functional.interpolate(torch.randn(1, 2, 3, 3, device="mydev"), scale_factor=2)
