"""Convolutions on the device, forward and backward: values, strides and errors are the CPU's, without a fallback."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from support.parity import is_out_of_reach
from torch_mydev import fallback_census, fallback_mode

RunPython = Callable[..., subprocess.CompletedProcess[str]]

KERNEL_DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def small_numbers(size: tuple[int, ...] | torch.Size) -> Tensor:
    """Multiples of 1/4 whose products f32 sums exactly, in any order."""
    return torch.randint(-4, 5, size) / 4


@dataclass(frozen=True)
class Case:
    function: str
    x: tuple[int, ...]
    weight: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    bias: bool = True

    def bias_size(self) -> int:
        transposed = "transpose" in self.function
        return self.weight[1] * int(self.options.get("groups", 1)) if transposed else self.weight[0]

    def tensors(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        torch.manual_seed(0)
        sizes: list[tuple[int, ...]] = [self.x, self.weight]
        if self.bias:
            sizes.append((self.bias_size(),))
        return [small_numbers(size).to(dtype) for size in sizes]

    def __call__(self, *tensors: Tensor) -> Tensor:
        result: Tensor = getattr(F, self.function)(*tensors, **self.options)
        return result


CASES = {
    "digits_first": Case("conv2d", (8, 1, 8, 8), (16, 1, 3, 3), {"padding": 1}),
    "digits_second": Case("conv2d", (8, 16, 8, 8), (32, 16, 3, 3), {"padding": 1}),
    "without_bias": Case("conv2d", (2, 3, 9, 7), (5, 3, 3, 3), bias=False),
    "one_image": Case("conv2d", (3, 9, 7), (5, 3, 3, 3)),
    "strided": Case("conv2d", (2, 3, 9, 11), (5, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilated": Case("conv2d", (2, 3, 12, 12), (5, 3, 3, 3), {"dilation": (2, 3), "padding": 2}),
    "same_padding": Case("conv2d", (2, 3, 9, 9), (5, 3, 5, 3), {"padding": "same"}),
    "pointwise": Case("conv2d", (2, 24, 7, 7), (40, 24, 1, 1)),
    "whole_image": Case("conv2d", (8, 6, 2, 3), (5, 6, 2, 3)),
    "only_image": Case("conv2d", (1, 6, 2, 3), (5, 6, 2, 3), {"stride": 2}),
    "one_position": Case("conv2d", (4, 16, 2, 2), (24, 16, 3, 3), {"stride": 2, "padding": 1}),
    "grouped": Case("conv2d", (2, 8, 7, 7), (12, 2, 3, 3), {"groups": 4, "padding": 1}),
    "depthwise": Case("conv2d", (2, 20, 7, 7), (20, 1, 3, 3), {"groups": 20, "padding": 1}),
    "line": Case("conv1d", (2, 4, 20), (6, 4, 5), {"stride": 2, "padding": 2}),
    "volume": Case("conv3d", (2, 3, 6, 7, 5), (4, 3, 3, 2, 3), {"padding": (1, 0, 1)}),
    "transposed": Case("conv_transpose2d", (2, 6, 5, 4), (6, 8, 3, 3), {"stride": 2, "output_padding": (1, 0)}),
    "transposed_grouped": Case("conv_transpose2d", (2, 6, 5, 5), (6, 2, 3, 3), {"groups": 3, "dilation": 2}),
    "transposed_line": Case("conv_transpose1d", (2, 4, 6), (4, 3, 4), {"stride": 3, "padding": 1}),
    "transposed_volume": Case("conv_transpose3d", (1, 3, 3, 4, 3), (3, 2, 2, 3, 2), {"stride": (2, 1, 2)}),
}
# The kernels leave these cases to the CPU.
HOST_CASES = {
    "empty_batch": Case("conv2d", (0, 3, 9, 7), (5, 3, 3, 3)),
    "output_padding_beyond_stride": Case(
        "conv_transpose2d", (1, 2, 4, 4), (2, 3, 2, 2), {"dilation": 3, "output_padding": 2}
    ),
}


def same_layout(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected)
    assert actual.stride() == expected.stride()


def channels_last(tensor: Tensor) -> Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


def check_gradients(device: torch.device, case: Case, tensors: list[Tensor]) -> None:
    on_device = [x.to(device).requires_grad_() for x in tensors]
    for x in tensors:
        x.requires_grad_()
    expected, actual = case(*tensors), case(*on_device)
    gradient = small_numbers(expected.shape)
    expected.backward(gradient)
    actual.backward(gradient.to(device))
    for x, y in zip(on_device, tensors, strict=True):
        torch.testing.assert_close(x.grad.cpu(), y.grad, equal_nan=True)


@pytest.mark.parametrize("dtype", KERNEL_DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_forward_agrees_with_cpu(device: torch.device, name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    tensors = case.tensors(dtype)
    on_device = [x.to(device) for x in tensors]
    with fallback_mode("error"):
        actual = case(*on_device)
    # Half types round once, at the end; the CPU does so in most cases only.
    same_layout(actual, case(*(x.float() for x in tensors)).to(dtype))


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree_with_cpu(device: torch.device, name: str) -> None:
    case = CASES[name]
    with fallback_mode("error", "aten::convolution_backward"):
        check_gradients(device, case, case.tensors())


@pytest.mark.parametrize("which", ["input", "weight", "both"])
@pytest.mark.parametrize("name", CASES)
def test_channels_last_agrees_with_cpu(device: torch.device, name: str, which: str) -> None:
    case = CASES[name]
    x, weight, *bias = case.tensors()
    x = channels_last(x) if which in {"input", "both"} else x
    weight = channels_last(weight) if which in {"weight", "both"} else weight
    same_layout(case(*(t.to(device) for t in (x, weight, *bias))), case(x, weight, *bias))
    check_gradients(device, case, [x, weight, *bias])


def test_some_channels_of_channels_last_agree_with_cpu(device: torch.device) -> None:
    case = CASES["without_bias"]
    x, weight = case.tensors()
    some = channels_last(torch.cat([x, x], 1))[:, 2:5]
    same_layout(case(some.to(device), weight.to(device)), case(some, weight))
    check_gradients(device, case, [some, weight])


@pytest.mark.parametrize("name", HOST_CASES)
def test_the_cpu_computes_the_rest(device: torch.device, name: str) -> None:
    case = HOST_CASES[name]
    tensors = case.tensors()
    same_layout(case(*(x.to(device) for x in tensors)), case(*tensors))
    check_gradients(device, case, tensors)


def test_double_is_the_cpus_where_the_host_reaches_the_memory(device: torch.device) -> None:
    case = CASES["strided"]
    tensors = case.tensors(torch.float64)
    with fallback_census() as census:
        actual = case(*(x.to(device) for x in tensors))
    same_layout(actual, case(*tensors))
    assert [row.op for row in census.rows] == ([] if is_out_of_reach(device) else ["aten::convolution"])


@pytest.mark.parametrize("layout", ["sliced", "stepped", "offset", "repeated", "permuted"])
def test_any_strides_agree_with_cpu(device: torch.device, layout: str) -> None:
    case = Case("conv2d", (2, 3, 8, 8), (5, 3, 3, 3))
    x, weight, bias = case.tensors()
    views = {
        "sliced": lambda t: torch.cat([t, t], 3)[:, :, :, :8],
        "stepped": lambda t: t.repeat_interleave(2, 2)[:, :, ::2],
        "offset": lambda t: torch.cat([t, t])[1:3],
        "repeated": lambda t: t[:1].expand(2, -1, -1, -1),
        "permuted": lambda t: t.permute(0, 1, 3, 2),
    }
    view = views[layout]
    with fallback_mode("error", "aten::convolution"):
        actual = case(view(x.to(device)), weight.to(device), bias.to(device))
    torch.testing.assert_close(actual.cpu(), case(view(x), weight, bias))


def test_expanded_gradient_is_read_as_it_is(device: torch.device) -> None:
    case = CASES["strided"]
    tensors = [x.requires_grad_() for x in case.tensors()]
    on_device = [x.detach().to(device).requires_grad_() for x in tensors]
    case(*tensors).sum().backward()
    case(*on_device).sum().backward()
    for x, y in zip(on_device, tensors, strict=True):
        torch.testing.assert_close(x.grad.cpu(), y.grad)


@pytest.mark.parametrize("needed", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_wanted_gradients_are_made(device: torch.device, needed: tuple[bool, bool, bool]) -> None:
    case = CASES["strided"]
    tensors = case.tensors()
    on_device = [x.to(device).requires_grad_(n) for x, n in zip(tensors, needed, strict=True)]
    for x, n in zip(tensors, needed, strict=True):
        x.requires_grad_(n)
    case(*tensors).square().sum().backward()
    case(*on_device).square().sum().backward()
    for x, y in zip(on_device, tensors, strict=True):
        assert (x.grad is None) == (y.grad is None)
        if y.grad is not None:
            torch.testing.assert_close(x.grad.cpu(), y.grad)


@pytest.mark.parametrize("name", ["without_bias", "transposed", "depthwise"])
def test_second_gradients_agree_with_cpu(device: torch.device, name: str) -> None:
    case = CASES[name]
    results = []
    for place in (torch.device("cpu"), device):
        x, weight, *bias = (t.to(place).requires_grad_() for t in case.tensors())
        (first,) = torch.autograd.grad(case(x, weight, *bias).square().sum(), x, create_graph=True)
        first.square().sum().backward()
        results.append((x.grad.cpu(), weight.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        ((2, 3, 8, 8), (5, 4, 3, 3), {}),
        ((2, 3, 2, 2), (5, 3, 3, 3), {}),
        ((2, 3, 8, 8), (5, 3, 3, 3), {"groups": 2}),
        ((2, 3, 8, 8), (5, 3, 3, 3), {"stride": 0}),
        ((2, 3, 8, 8), (5, 3, 3, 3), {"padding": -1}),
        ((2, 3, 8, 8), (5, 3, 3, 3), {"dilation": 0}),
        ((2, 3, 8, 8), (5, 3, 3, 3), {"dilation": (1, 0)}),
        ((2, 3, 8, 8), (5, 3, 3, 3), {"dilation": -1}),
    ],
    ids=["channels", "kernel_size", "groups", "stride", "padding", "dilation", "one_dilation", "negative_dilation"],
)
def test_wrong_operands_raise_what_the_cpu_raises(
    device: torch.device, x: tuple[int, ...], weight: tuple[int, ...], options: dict[str, int]
) -> None:
    with pytest.raises(RuntimeError) as expected:
        F.conv2d(torch.ones(x), torch.ones(weight), **options)
    with pytest.raises(RuntimeError) as actual:
        F.conv2d(torch.ones(x, device=device), torch.ones(weight, device=device), **options)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


# The CPU's own message, of oneDNN, names nothing.
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dilation": 0}, "non-positive dilation is not supported"),
        (
            {"padding": 20},
            r"per channel: \(7 x 7\). Calculated output size per channel: \(-31 x -31\). Output size is too small",
        ),
    ],
    ids=["dilation", "padding"],
)
def test_wrong_transposed_convolution_is_named(options: dict[str, int], message: str) -> None:
    x, weight = torch.ones(2, 4, 7, 7), torch.ones(4, 4, 3, 3)
    with pytest.raises(RuntimeError):
        F.conv_transpose2d(x, weight, **options)
    with pytest.raises(RuntimeError, match=message):
        F.conv_transpose2d(x.to("mydev"), weight.to("mydev"), **options)


def test_small_transposed_convolution_of_no_size_raises_what_the_cpu_raises() -> None:
    x, weight = torch.ones(1, 1, 1, 6), torch.ones(1, 1, 2, 3)
    with pytest.raises(RuntimeError) as expected:
        F.conv_transpose2d(x, weight, padding=1)
    with pytest.raises(RuntimeError) as actual:
        F.conv_transpose2d(x.to("mydev"), weight.to("mydev"), padding=1)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_transposed_convolution_of_no_size() -> None:
    x, weight = torch.ones(2, 4, 7, 7), torch.ones(4, 4, 4, 4)
    expected = F.conv_transpose2d(x, weight, padding=5)
    torch.testing.assert_close(F.conv_transpose2d(x.to("mydev"), weight.to("mydev"), padding=5).cpu(), expected)


@pytest.mark.parametrize(
    ("width", "padding"),
    [(w, p) for w in (1, 2, 3, 5, 10, 16, 18, 19, 40) for p in (0, 1, 2) if w + 2 * p >= 3],
)
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_of_every_width(device: torch.device, width: int, padding: int, stride: int) -> None:
    """Narrower than a vector, as wide, wider; a NaN beyond the border of a window's row is not taken in."""
    x, weight = small_numbers((2, 4, 5, width)), small_numbers((4, 1, 3, 3))
    weight[0, 0, 0, 0] = float("nan")
    options = {"padding": padding, "stride": stride, "groups": 4}
    expected = F.conv2d(x, weight, None, **options)
    actual = F.conv2d(x.to(device), weight.to(device), None, **options)
    torch.testing.assert_close(actual.cpu()[:, 1:], expected[:, 1:], rtol=0, atol=0)
    if padding > 0:  # the NaN's tap lies outside for the first row and column
        assert not actual.cpu()[:, 0, 0].isnan().any()
        assert not actual.cpu()[:, 0, :, 0].isnan().any()


@pytest.mark.parametrize("channels", [3, 16, 20, 64, 100])
@pytest.mark.parametrize(
    ("size", "window", "options"),
    [
        ((8, 8), (7, 7), {"padding": 3}),
        ((1, 1), (7, 7), {"padding": 3}),
        ((9, 30), (5, 2), {"padding": (1, 0), "stride": (2, 3)}),
        ((12, 9), (4, 5), {"padding": 4, "dilation": (3, 2)}),
        ((3, 70), (2, 64), {}),
        ((3, 70), (2, 65), {}),
    ],
    ids=["padded", "one_position", "strided", "dilated", "long_window", "longer_window"],
)
def test_depthwise_gradients_of_larger_windows(
    device: torch.device, channels: int, size: tuple[int, int], window: tuple[int, int], options: dict[str, Any]
) -> None:
    """Channels fill vectors and blocks, or do not; taps lie outside everywhere, or for some positions."""
    case = Case("conv2d", (2, channels, *size), (channels, 1, *window), {**options, "groups": channels})
    x, weight, bias = case.tensors()
    x[0, 0, 0, 0] = float("inf")  # reaches its own channel alone, and of that the taps that read it
    with fallback_mode("error", "aten::convolution_backward"):
        check_gradients(device, case, [channels_last(x), weight, bias])


CONVOLVE_WIDE = """
import torch, torch_mydev
import torch.nn.functional as F
torch.manual_seed(0)
x = torch.randn(2, 48, 21, 30)
x[0, 0, 9, 9] = 1e6
x.requires_grad_()
weight = torch.nn.init.dirac_(torch.empty(48, 48, 3, 3))  # each result is an element of x
y = F.conv2d(x.to(torch_mydev.device_name), weight.to(torch_mydev.device_name), padding=1)
y.square().sum().backward()
operands = [tensor.to(torch_mydev.device_name) for tensor in (torch.ones_like(x), x.detach(), weight)]
grad = torch.ops.aten.convolution_backward(
    *operands, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False])[1]
padded = F.pad(x.detach().double(), (1, 1, 1, 1))
expected = torch.stack([padded[:, :, i : i + 21, j : j + 30].sum((0, 2, 3)) for i in range(3) for j in range(3)], 1)
print((y.cpu() - x).abs().max().item() / 1e6, (x.grad - 2 * x).abs().max().item() / 2e6,
      (grad.cpu() - expected.view(1, 48, 3, 3)).abs().max().item() / 1e6)
"""


@pytest.mark.parametrize("winograd", ["0", "1"])
def test_many_channels_agree_with_the_taps(run_python: RunPython, winograd: str) -> None:
    result = run_python(CONVOLVE_WIDE, MYDEV_WINOGRAD=winograd, MYDEV_DRIVER="host")
    errors = [float(word) for word in result.stdout.split()]
    assert len(errors) == 3, result.stderr
    assert all(error < 3e-7 for error in errors)
    assert all(error > 0 for error in errors) == (winograd == "1")
