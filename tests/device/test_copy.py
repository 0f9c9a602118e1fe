"""Copies between the CPU and devices: directions, dtypes, strides, lazy bits, pinned memory, reading values back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "sliced": lambda t: t[1:, ::2, 1:],
    "expanded": lambda t: t[:, :1].expand(4, 6, 8),
    "channels_last": lambda t: t.unsqueeze(0).contiguous(memory_format=torch.channels_last),
    "flipped": lambda t: t.flip(0),
    "scalar": lambda t: t[0, 0, 0],
    "empty": lambda t: t[:0],
}


def example(dtype: torch.dtype) -> torch.Tensor:
    """4 x 6 x 8 values that every dtype can hold."""
    values = torch.arange(4 * 6 * 8).reshape(4, 6, 8) % 100
    return (values - 50 if dtype.is_signed else values).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip_keeps_values_and_dtype(device: torch.device, dtype: torch.dtype, layout: str) -> None:
    source = LAYOUTS[layout](example(dtype))
    there = source.to(device)
    assert there.device.type == device.type
    torch.testing.assert_close(there.cpu(), source, rtol=0, atol=0)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
@pytest.mark.parametrize("direction", ["from cpu", "to cpu", "on device"])
def test_copy_into_strided_destination(device: torch.device, direction: str, layout: str) -> None:
    source = LAYOUTS[layout](example(torch.float32))
    expected = LAYOUTS[layout](torch.zeros(4, 6, 8)).copy_(source)
    there = LAYOUTS[layout](torch.zeros(4, 6, 8).to(device if direction != "to cpu" else "cpu"))
    there.copy_(source if direction == "from cpu" else source.to(device))
    torch.testing.assert_close(there.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.float64, torch.complex128], ids=str)
def test_memory_formats_of_images(device: torch.device, dtype: torch.dtype, channels: int) -> None:
    source = torch.arange(2 * channels * 5 * 7).reshape(2, channels, 5, 7).to(dtype)
    there = source.to(device).contiguous(memory_format=torch.channels_last)
    assert there.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(there.cpu(), source, rtol=0, atol=0)
    torch.testing.assert_close(there.contiguous().cpu(), source, rtol=0, atol=0)


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("origin", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_casts_as_cpu(device: torch.device, origin: torch.dtype, target: torch.dtype) -> None:
    source = example(origin)
    expected = source.to(target)
    torch.testing.assert_close(source.to(device).to(target).cpu(), expected, rtol=0, atol=0)
    torch.testing.assert_close(source.to(device, target).cpu(), expected, rtol=0, atol=0)
    torch.testing.assert_close(source.to(device).to("cpu", target), expected, rtol=0, atol=0)


def test_strides_of_single_elements_do_not_matter(device: torch.device) -> None:
    source = torch.arange(16.0)
    window = source.to(device).as_strided((2, 1, 1, 2), (1, 7, 7, 1))
    torch.testing.assert_close(window.cpu(), source.as_strided((2, 1, 1, 2), (1, 7, 7, 1)))


def test_copy_broadcasts(device: torch.device) -> None:
    there = torch.zeros(3, 4, device=device)
    there.copy_(torch.arange(4.0))
    torch.testing.assert_close(there.cpu(), torch.arange(4.0).expand(3, 4))


@pytest.mark.parametrize("make", [torch.conj, torch._neg_view, lambda t: t.conj().imag], ids=["conj", "neg", "both"])
def test_lazy_bits_are_resolved(device: torch.device, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    source = torch.randn(3, 5, dtype=torch.complex64)
    torch.testing.assert_close(make(source.to(device)).cpu(), make(source).resolve_conj().resolve_neg())
    torch.testing.assert_close(make(source).to(device).cpu(), make(source).resolve_conj().resolve_neg())
    torch.testing.assert_close(make(source.to(device)).clone().cpu(), make(source).clone())


def test_copy_into_conjugate_view(device: torch.device) -> None:
    target, expected = torch.zeros(3, dtype=torch.complex64, device=device), torch.zeros(3, dtype=torch.complex64)
    source = torch.randn(3, dtype=torch.complex64)
    target.conj().copy_(source)
    expected.conj().copy_(source)
    torch.testing.assert_close(target.cpu(), expected)


@pytest.mark.parametrize("non_blocking", [False, True])
def test_pinned_memory_copies(device: torch.device, non_blocking: bool) -> None:
    source = torch.randn(1000, 1000).pin_memory()
    assert source.is_pinned()
    there = source.to(device, non_blocking=non_blocking)
    back = torch.empty(1000, 1000).pin_memory()
    back.copy_(there, non_blocking=non_blocking)
    torch.accelerator.synchronize()
    assert torch.equal(back, source)


def test_pageable_source_may_change_after_non_blocking_copy(device: torch.device) -> None:
    source = torch.ones(1000, 1000)
    there = source.to(device, non_blocking=True)
    source.zero_()
    assert there.sum().item() == 1_000_000


@pytest.mark.parametrize(
    "value", [True, 7, -3, 2.5, 1 + 2j, float("inf")], ids=["bool", "int", "negative", "float", "complex", "infinity"]
)
def test_item(device: torch.device, value: complex) -> None:
    assert torch.tensor(value, device=device).item() == value


def test_item_of_many_elements_is_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="2 elements"):
        torch.ones(2, device=device).item()


def test_tolist(device: torch.device) -> None:
    assert torch.arange(6, device=device).reshape(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_copy_of_itself_changes_nothing(device: torch.device) -> None:
    there = torch.arange(5.0, device=device)
    there.copy_(there)
    assert there.tolist() == [0, 1, 2, 3, 4]


def test_partial_overlap_is_refused(device: torch.device) -> None:
    there = torch.arange(5.0, device=device)
    with pytest.raises(RuntimeError, match=r"overlap|memory location"):
        there[1:].copy_(there[:-1])


def test_internal_overlap_is_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(1, device=device).expand(3).copy_(torch.ones(3, device=device))


def test_sizes_that_do_not_broadcast_are_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\)|expand"):
        torch.zeros(3, device=device).copy_(torch.ones(4))


def test_meta_has_no_data_to_copy(device: torch.device) -> None:
    with pytest.raises(NotImplementedError, match="no data"):
        torch.zeros(3, device=device).copy_(torch.ones(3, device="meta"))


@pytest.mark.devices(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", [torch.float32, torch.int64], ids=str)
def test_copies_between_devices(device: torch.device, layout: str, target: torch.dtype) -> None:
    source = LAYOUTS[layout](example(torch.float32))
    first = LAYOUTS[layout](example(torch.float32).to(f"{device.type}:0"))
    second = first.to(f"{device.type}:1", target)
    assert second.device.index == 1
    torch.testing.assert_close(second.cpu(), source.to(target), rtol=0, atol=0)


@pytest.mark.devices(2)
def test_copies_between_devices_are_ordered(device: torch.device) -> None:
    first, second = torch.zeros(500, 500, device=f"{device.type}:0"), torch.zeros(500, 500, device=f"{device.type}:1")
    for step in range(20):
        first.fill_(step)
        second.copy_(first)
        first.fill_(-1)
        assert second.mean().item() == step


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("row", [1, 2, 3, 5, 16, 17, 31, 33, 64, 100, 300, 2000])
def test_rows_of_every_length_change_places(device: torch.device, dtype: torch.dtype, row: int) -> None:
    source = (torch.arange(3 * 5 * 2 * row) % 251).to(dtype).view(3, 5, 2, row)
    for order in ((1, 0, 2, 3), (2, 1, 0, 3), (0, 2, 1, 3)):
        there = source.to(device).permute(order)
        assert torch.equal(there.contiguous().cpu(), source.permute(order).contiguous())
        target = torch.zeros_like(source).to(device)
        target.permute(order).copy_(there.contiguous())
        assert torch.equal(target.cpu(), source)


@pytest.mark.parametrize("sizes", [(64, 128), (70, 131), (3, 96, 64), (33, 65)], ids=str)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_matrices_are_transposed(device: torch.device, dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(0, torch.iinfo(dtype).max, sizes, dtype=dtype, generator=generator)
    assert torch.equal(source.to(device).mT.contiguous().cpu(), source.mT.contiguous())
    shifted = source.to(device)[..., 1:, 1:].mT
    assert torch.equal(shifted.contiguous().cpu(), source[..., 1:, 1:].mT.contiguous())


class _Seen(TorchDispatchMode):
    """Keeps the names of the operators that reach the dispatcher's Python."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_who_looks_on_sees_item_as_on_the_cpu(device: torch.device) -> None:
    """item() goes a short way where nobody looks on; modes, transforms and the profiler see what they see elsewhere."""

    def seen(tensor: torch.Tensor) -> tuple[list[str], list[str], float]:
        with _Seen() as mode:
            tensor.item()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            tensor.item()
        events = [event.name for event in profile.events() if event.name.startswith("aten::")]
        gradient = torch.func.grad(lambda x: x * tensor.item())(torch.ones((), device=tensor.device))
        return mode.names, events, gradient.item()

    value = torch.tensor([2.5])
    assert seen(value.to(device)) == seen(value) == (["aten._local_scalar_dense.default"], ANY, 2.5)
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(DataDependentOutputException):
        torch.ones(1, device=device).item()
    lazy = torch.tensor([1 + 2j]).to(device).conj()
    assert lazy.item() == 1 - 2j
    assert lazy.imag.item() == -2
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.ones(2, device=device).item()
