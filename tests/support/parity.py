"""Runs one function on the CPU and on the device and holds results and gradients against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

import torch_mydev

Function = Callable[..., Any]

#: Views of a tensor of at least two dimensions: what every operator must take beside contiguous memory.
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, -1),
    "offset": lambda t: t[1:],
    "strided": lambda t: t[..., ::2],
    "expanded": lambda t: t[:1].expand_as(t),
}


def to_device(tree: Any, device: torch.device) -> Any:
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, tree)


def assert_same(actual: Any, expected: Any, device: torch.device) -> None:
    """Equal to the default tolerances, with dtype and shape, and on the device."""
    torch.testing.assert_close(to_device(actual, torch.device("cpu")), expected, equal_nan=True)
    tree_map(lambda leaf: _assert_on(leaf, device), actual)


def _assert_on(leaf: Any, device: torch.device) -> None:
    if isinstance(leaf, torch.Tensor):
        assert leaf.device.type == device.type


def assert_parity(function: Function, *inputs: Any, device: torch.device, native: bool = True) -> None:
    """``function(*inputs)`` gives the same on both devices; with ``native``, without a fallback."""
    expected = function(*inputs)
    moved = to_device(inputs, device)
    with torch_mydev.fallback_mode("error" if native else "allow"):
        actual = function(*moved)
    assert_same(actual, expected, device)


@contextmanager
def raises_in_a_kernel(error: type[Exception], match: str) -> Iterator[None]:
    """Expects the error of PyTorch's kernel about a number in memory, such as an index. A portable kernel has one
    sentence and one type for all of them, and names itself."""
    with pytest.raises((error, IndexError), match=rf"{match}|OUT_OF_RANGE in compiled\.") as raised:
        yield
    assert "in compiled." in str(raised.value) or type(raised.value) is error


def is_out_of_reach(device: torch.device) -> bool:
    """Whether the host does not reach the device's memory, so that a fallback copies."""
    return not torch.mydev.get_device_properties(device).host_accessible  # type: ignore[attr-defined]


def assert_no_copies(function: Function, *inputs: Any, device: torch.device) -> None:
    """Does what ``assert_parity`` does, and compares strides. No fallback is allowed where the host does not reach the
    device's memory."""
    assert_parity(function, *inputs, device=device, native=is_out_of_reach(device))
    strides = tree_map(lambda leaf: leaf.stride() if isinstance(leaf, torch.Tensor) else None, function(*inputs))
    actual = function(*to_device(inputs, device))
    assert tree_map(lambda leaf: leaf.stride() if isinstance(leaf, torch.Tensor) else None, actual) == strides


def assert_gradient_parity(function: Function, *inputs: Any, device: torch.device, native: bool = True) -> None:
    """Does what ``assert_parity`` does, also for the gradients of all floating inputs under random output gradients."""

    def run(leaves: tuple[Any, ...], seeds: list[torch.Tensor] | None) -> tuple[Any, list[Any], list[torch.Tensor]]:
        leaves = tree_map(
            lambda leaf: (
                leaf.detach().clone().requires_grad_()
                if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
                else leaf
            ),
            leaves,
        )
        result = function(*leaves)
        outputs = [out for out in (result if isinstance(result, tuple) else (result,)) if out.requires_grad]
        if seeds is None:
            seeds = [
                torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(out.dtype) for out in outputs
            ]
        torch.autograd.backward(outputs, [seed.to(out.device) for seed, out in zip(seeds, outputs, strict=True)])
        gradients = [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
        return tree_map(lambda out: out.detach() if isinstance(out, torch.Tensor) else out, result), gradients, seeds

    expected, expected_gradients, seeds = run(inputs, None)
    moved = to_device(inputs, device)
    with torch_mydev.fallback_mode("error" if native else "allow"):
        actual, gradients, _ = run(moved, seeds)
    assert_same(actual, expected, device)
    assert_same(gradients, expected_gradients, device)
