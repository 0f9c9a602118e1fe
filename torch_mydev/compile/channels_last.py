"""Convolutions of a compiled graph work on channels-last images.

oneDNN's kernels are fastest on such images, and reorder others before and after each convolution. Inside a graph the
layout is the compiler's to choose: what Inductor does to its own convolutions on the CPU is done here for those that
stay calls of the device. Results that others see keep eager's strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch._guards import detect_fake_mode
from torch._inductor import config, inductor_prims
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._prims_common import is_contiguous_for_memory_format_or_false, suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from torch_mydev.compile.device_call import has_static_strides, twin
from torch_mydev.compile.device_kernels import DEVICE_KERNELS

aten = torch.ops.aten


def prefer_channels_last(graph: GraphModule, example_inputs: Sequence[Any], num_visible: int | None) -> None:
    """Gives the device's convolutions in a graph of the host channels-last images, in place.

    Args:
        num_visible: how many of the first outputs keep their strides; None: all. The others, which the backward graph
            takes, may lie as they come.
    """
    images = {twin(op): kernel.images for op, kernel in DEVICE_KERNELS.items() if kernel.images}
    convolutions = [node for node in graph.graph.nodes if node.target in images and _is_image(node)]
    if not config.layout_optimization or not convolutions or not all(map(_is_static, convolutions)):
        return
    output = graph.graph.output_node()
    results = cast("Sequence[Any]", output.args[0])
    strides = [_strides(result) for result in results]
    view_to_reshape(graph)  # type: ignore[no-untyped-call]
    mode = detect_fake_mode(example_inputs)
    assert mode is not None
    propagation = _Propagation(graph, mode, images)
    with torch.no_grad():
        propagation.propagate_dont_convert_inputs(*example_inputs)
    visible = len(results) if num_visible is None else num_visible
    kept = [
        _with_strides(result, before) if before and index < visible and str(_strides(result)) != str(before) else result
        for index, (result, before) in enumerate(zip(results, strides, strict=True))
    ]
    output.args = (type(results)(kept),)  # type: ignore[call-arg]
    graph.graph.lint()
    graph.recompile()


class _Propagation(FakeTensorProp):
    """Puts a conversion before each operand that needs one, while it finds how all that follows lies."""

    def __init__(self, graph: GraphModule, mode: FakeTensorMode, images: dict[Any, int]) -> None:
        super().__init__(graph, mode)
        self._images = images
        self._converted: dict[Node, Node] = {}

    def run_node(self, n: Node) -> Any:
        if n.target in self._images and _is_image(n):
            for index in range(self._images[n.target]):
                image = n.args[index]
                assert isinstance(image, Node)
                if not _is_channels_last(self.env[image]):
                    n.update_arg(index, self._convert(image, n))
        return super().run_node(n)

    def _convert(self, image: Node, user: Node) -> Node:
        if image not in self._converted:
            # A kernel of its own for an input, whose few channels generated code transposes slowly.
            convert = twin(aten.clone.default) if image.op == "placeholder" else aten.clone.default
            with user.graph.inserting_before(user):
                converted = user.graph.call_function(convert, (image,), {"memory_format": torch.channels_last})
            self.env[converted] = super().run_node(converted)
            self._converted[image] = converted
        return self._converted[image]


def _is_image(convolution: Node) -> bool:
    """Whether it has two spatial dimensions."""
    operand = convolution.args[0]
    return isinstance(operand, Node) and operand.meta["val"].dim() == 4


def _is_static(convolution: Node) -> bool:
    """Whether no more than the number of images is symbolic: Inductor cannot always compare strides that are."""
    return all(has_static_strides(operand) for operand in convolution.all_input_nodes if _is_tensor(operand))


def _is_channels_last(image: torch.Tensor) -> bool:
    """Whether it lies so densely, and not only by chance, as images of one channel do."""
    return (
        is_contiguous_for_memory_format_or_false(image, memory_format=torch.channels_last)
        and suggest_memory_format(image) is torch.channels_last
    )


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _strides(result: Any) -> tuple[Any, ...] | None:
    value = result.meta.get("val") if isinstance(result, Node) else None
    return value.stride() if isinstance(value, torch.Tensor) and value.layout is torch.strided else None


def _with_strides(result: Node, strides: tuple[Any, ...]) -> Node:
    """A result that lies as before, with nodes for symbolic strides."""
    with result.graph.inserting_before(result.graph.output_node()):
        stride_nodes = result.graph.materialize_symints(strides)
        kept = result.graph.call_function(inductor_prims.force_stride_order, (result, stride_nodes))
    kept.meta["val"] = result.meta["val"].new_empty_strided(result.meta["val"].shape, strides)
    return kept
