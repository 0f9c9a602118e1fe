"""Convolutions, pooling and normalization of images in compiled graphs, where images lie channels-last by either
route, but where that would convert them back and forth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._inductor.utils import run_and_get_code

import torch_mydev
from support.like_eager import assert_like_eager

pytestmark = pytest.mark.usefixtures("fresh_compiler")


IMAGES: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, w: F.conv2d(x, w[:, :, :1, :1]).relu(),
    "two": lambda x, w: F.conv2d(F.conv2d(x, w, padding=1).sigmoid(), w.transpose(0, 1)),
    "transposed": lambda x, w: F.conv_transpose2d(F.conv2d(x, w), w, stride=2),
    "strided_and_dilated": lambda x, w: F.conv2d(x, w, stride=2, dilation=2, padding=3),
    "grouped": lambda x, w: F.conv2d(x, w[:3, :1], groups=3),
    "of_one_channel": lambda x, w: F.conv2d(x[:, :1], w[:, :1]),
    "of_one_position": lambda x, w: F.conv2d(F.conv2d(x, w).mean((2, 3), keepdim=True), w[:, :1, :1, :1].tile(4, 1, 1)),
    "of_part_of_the_channels": lambda x, w: F.conv2d(torch.cat([x, x], 1)[:, 1:4], w),
    "then_flattened": lambda x, w: F.conv2d(x, w).flatten(1) * 2,
    "and_a_view": lambda x, w: (F.conv2d(x, w) + 1).unbind(1),
    "pooled": lambda x, w: F.max_pool2d(F.conv2d(x, w), 2),
    "normalized_by_batch": lambda x, w: F.batch_norm(F.conv2d(x, w), None, None, training=True),
    "normalized_by_group": lambda x, w: F.silu(F.group_norm(F.conv2d(x, w), 2)),
    "one_dimension": lambda x, w: F.conv1d(x[0], w[:, 0].repeat(1, 3, 1)),
    "three_dimensions": lambda x, w: F.conv3d(x[:, None], w[:, None]),
}


def image_and_weight() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    image, weight = torch.randn(2, 3, 9, 9, device="mydev"), torch.randn(4, 3, 3, 3, device="mydev")
    return image.requires_grad_(), weight.requires_grad_()


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_convolutions_give_what_eager_gives(name: str) -> None:
    """Their results and gradients lie as eager's do, though images lie channels-last inside the graph."""
    assert_like_eager(IMAGES[name], *image_and_weight())


# Inductor cannot compare the strides, products of symbolic sizes, of the gradient of an unbind.
@pytest.mark.parametrize("name", [name for name in IMAGES if name != "and_a_view"])
def test_dynamic_convolutions_give_what_eager_gives(name: str) -> None:
    assert_like_eager(IMAGES[name], *image_and_weight(), dynamic=True)


@pytest.mark.host_access
def test_convolutions_of_any_number_of_images() -> None:
    compiled = torch.compile(IMAGES["normalized_by_group"], fullgraph=True)
    for count in (2, 3, 5):
        x, weight = torch.randn(count, 3, 9, 9, device="mydev"), torch.randn(4, 3, 3, 3, device="mydev")
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x, weight), IMAGES["normalized_by_group"](x, weight), check_stride=True)
    assert len(torch_mydev.compile_report().graphs) == 1


@pytest.mark.host_access
def test_images_lie_channels_last_inside_a_graph() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.MaxPool2d(2)).to("mydev")
    x = torch.randn(2, 3, 9, 9, device="mydev")
    with torch.no_grad():
        result, (code,) = run_and_get_code(torch.compile(model), x)
    torch.testing.assert_close(result, model(x), check_stride=True)
    assert code.count("mydev_device_clone(") == 1
    assert code.count("mydev_device_convolution(") == 2
    assert code.count("mydev_device_max_pool2d_with_indices(") == 1


@pytest.mark.host_access
def test_an_image_of_two_convolutions_is_converted_once() -> None:
    x, weight = image_and_weight()
    with torch.no_grad():
        _, (code,) = run_and_get_code(torch.compile(lambda x, w: F.conv2d(x, w) + F.conv2d(x, w + 1)), x, weight)
    assert code.count("mydev_device_clone(") == 1


def test_a_convolution_of_a_constant() -> None:
    weight = torch.randn(4, 3, 3, 3)

    def function(x: Tensor) -> Tensor:
        return F.conv2d(x, weight.to(x.device)) + F.conv2d(torch.ones(1, 3, 9, 9, device=x.device), weight.to(x.device))

    assert_like_eager(function, torch.randn(2, 3, 9, 9, device="mydev"))


# --- by generated kernels --------------------------------------------------------------------------------------------


def by_kernels(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, fullgraph=True, backend="mydev_kernels")


def test_what_is_one_number_for_each_plane_is_read_once_for_it(kernel_sources: list[str]) -> None:
    x, scale = torch.randn(4, 6, 8, 8, device="mydev"), torch.randn(6, 1, 1, device="mydev")
    torch.testing.assert_close(by_kernels(lambda x, scale: x * scale)(x, scale), x * scale)
    (source,) = kernel_sources
    of_rows, of_elements = source.split("PLACES_OPEN")
    assert "24, 64" in of_rows
    assert "/" not in of_elements
    assert "%" not in of_elements


def test_gradients_of_convolutions_take_images_as_they_lie(kernel_sources: list[str]) -> None:
    """Channels-last, though the weights' gradient of a depthwise convolution lies channels-first."""
    x = torch.randn(2, 4, 8, 8, device="mydev").to(memory_format=torch.channels_last).requires_grad_()
    weight = torch.randn(4, 1, 3, 3, device="mydev", requires_grad=True)

    def convolved(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(x, weight, padding=1, groups=4)

    assert_like_eager(convolved, x, weight, backend="mydev_kernels")
    assert not kernel_sources


@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_take_weights_as_they_lie(bias: bool, kernel_sources: list[str]) -> None:
    x = torch.randn(2, 4, 8, 8, device="mydev").to(memory_format=torch.channels_last)
    weight, offset = torch.randn(4, 4, 3, 3, device="mydev"), torch.randn(4, device="mydev") if bias else None

    def convolved(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(x, weight, offset, padding=1)

    assert_like_eager(convolved, x, weight.requires_grad_(), backend="mydev_kernels")
    assert not kernel_sources


def test_group_norms_keep_images_channels_first(kernel_sources: list[str]) -> None:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(F.group_norm(F.conv2d(x, weight, padding=1), 4), weight, padding=1)

    x, weight = torch.randn(2, 8, 8, 8, device="mydev"), torch.randn(8, 8, 3, 3, device="mydev")
    with torch.no_grad():
        torch.testing.assert_close(by_kernels(function)(x, weight), function(x, weight), check_stride=True)
    assert not kernel_sources
