"""Copies from and to tensors with the conjugate or negative bit: what the CPU writes, in each direction and layout."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

#: 40 x 40 elements out of 80 x 80.
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t.view(-1)[: 40 * 40].view(40, 40),
    "transposed": lambda t: t.view(-1)[: 40 * 40].view(40, 40).t(),
    "sliced": lambda t: t[::2, 1::2],
}
BITS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda t: t,
    "negative": torch._neg_view,
    "conjugate": torch.conj,
    "both": lambda t: torch._neg_view(t.conj()),
}
REAL = ["plain", "negative"]
COMPLEX = [*REAL, "conjugate", "both"]
DTYPES = [
    (torch.complex64, torch.complex64), (torch.complex128, torch.complex64), (torch.complex64, torch.float32),
    (torch.float32, torch.complex64), (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.float64, torch.bfloat16),
    (torch.float16, torch.float16), (torch.int64, torch.int64), (torch.uint8, torch.float32),
    (torch.float32, torch.uint8), (torch.int16, torch.int8),
]  # fmt: skip
CASES = [
    (origin, origin_bit, target, target_bit)
    for origin, target in DTYPES
    for origin_bit in (COMPLEX if origin.is_complex else REAL)
    for target_bit in (COMPLEX if target.is_complex else REAL)
]


def example(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """80 x 80 values that every dtype can hold, none of them 0."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 100, (80, 80, 2), generator=generator).double()
    return (torch.view_as_complex(values) if dtype.is_complex else values[..., 0]).to(dtype)


def case_name(case: tuple[torch.dtype, str, torch.dtype, str]) -> str:
    return "-".join(str(part).removeprefix("torch.") for part in case)


@pytest.mark.parametrize(
    "layouts",
    [
        ("contiguous", "contiguous"),
        ("transposed", "contiguous"),
        ("contiguous", "transposed"),
        ("sliced", "transposed"),
        ("sliced", "sliced"),
    ],
    ids="-to-".join,
)
@pytest.mark.parametrize("case", CASES, ids=case_name)
@pytest.mark.filterwarnings("ignore:Casting complex values to real", "ignore:ComplexHalf support")
def test_copy_applies_lazy_bits(
    device: torch.device, case: tuple[torch.dtype, str, torch.dtype, str], layouts: tuple[str, str]
) -> None:
    origin, origin_bit, target, target_bit = case

    def memory_after_copy(source: str, destination: str, wait: bool = True) -> torch.Tensor:
        memory = example(target, 1).to(destination)
        values = LAYOUTS[layouts[0]](BITS[origin_bit](example(origin, 2).to(source)))
        LAYOUTS[layouts[1]](BITS[target_bit](memory)).copy_(values, non_blocking=not wait)
        torch.accelerator.synchronize(0)
        return memory.cpu()

    first = f"{device.type}:0"
    second = f"{device.type}:{torch.accelerator.device_count() - 1}"
    expected = memory_after_copy("cpu", "cpu")
    for source, destination in itertools.product(["cpu", first, second], [first, second]):
        assert torch.equal(memory_after_copy(source, destination), expected), f"from {source} to {destination}"
    assert torch.equal(memory_after_copy(first, "cpu"), expected)
    assert torch.equal(memory_after_copy(first, "cpu", wait=False), expected)
    assert torch.equal(memory_after_copy("cpu", first, wait=False), expected)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("bit", COMPLEX)
def test_imaginary_part_of_conjugate_is_copied(device: torch.device, dtype: torch.dtype, bit: str) -> None:
    source = example(dtype, 3)
    expected = BITS[bit](source).imag.clone()
    there = source.to(device)
    torch.testing.assert_close(BITS[bit](there).imag.clone().cpu(), expected)
    torch.testing.assert_close(BITS[bit](there).imag.cpu(), expected)
    torch.testing.assert_close(BITS[bit](source).imag.to(device).cpu(), expected)
    there.imag.copy_(BITS[bit](source).imag)
    torch.testing.assert_close(there.imag.cpu(), expected)


@pytest.mark.parametrize("bit", ["negative", "conjugate", "both"])
def test_copy_of_own_lazy_view_changes_memory_in_place(device: torch.device, bit: str) -> None:
    source = example(torch.complex64, 4)
    there = source.to(device)
    assert torch.equal(there.copy_(BITS[bit](there)).cpu(), source.clone().copy_(BITS[bit](source)))
