"""Under ``torch.use_deterministic_algorithms`` memory without contents is filled, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.uint64,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
]

Make = Callable[[str, torch.dtype], torch.Tensor]

FACTORIES: dict[str, Make] = {
    "empty": lambda device, dtype: torch.empty(2, 3, device=device, dtype=dtype),
    "empty channels last": lambda device, dtype: torch.empty(
        2, 3, 2, 2, device=device, dtype=dtype, memory_format=torch.channels_last
    ),
    "empty without elements": lambda device, dtype: torch.empty(0, 3, device=device, dtype=dtype),
    "empty_like": lambda device, dtype: torch.empty_like(torch.zeros(3, 2, device=device, dtype=dtype).t()),
    "empty_strided": lambda device, dtype: torch.empty_strided((2, 3), (1, 2), device=device, dtype=dtype),
    "empty_permuted": lambda device, dtype: torch.empty_permuted((2, 3), (1, 0), device=device, dtype=dtype),
    "new_empty": lambda device, dtype: torch.zeros(1, device=device, dtype=dtype).new_empty(4),
    "new_empty_strided": lambda device, dtype: torch.zeros(1, device=device, dtype=dtype).new_empty_strided(
        (2, 3), (3, 1)
    ),
    "resize_": lambda device, dtype: torch.ones(2, device=device, dtype=dtype).resize_(2, 3),
    "resize_ of a view": lambda device, dtype: torch.ones(4, device=device, dtype=dtype)[2:].resize_(4),
    "resize_ to less": lambda device, dtype: torch.ones(4, device=device, dtype=dtype).resize_(2),
    "resize_as_": lambda device, dtype: torch.ones(2, device=device, dtype=dtype).resize_as_(
        torch.zeros(5, device=device, dtype=dtype)
    ),
}


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("factory", FACTORIES)
def test_memory_is_filled_as_on_the_cpu(factory: str, dtype: torch.dtype) -> None:
    made, expected = FACTORIES[factory]("mydev", dtype), FACTORIES[factory]("cpu", dtype)
    assert made.stride() == expected.stride()
    assert made._version == expected._version
    bits = torch.uint8 if not dtype.is_complex else expected.real.dtype
    torch.testing.assert_close(
        made.cpu().contiguous().view(bits), expected.contiguous().view(bits), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.usefixtures("deterministic")
def test_filling_can_be_switched_off() -> None:
    torch.ones(1000, device="mydev")  # what the next one is given
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert not torch.empty(1000, device="mydev").isnan().any()
        assert not torch.ones(1, device="mydev").resize_(1000).isnan().any()
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.usefixtures("deterministic")
def test_results_of_operators_are_as_ever() -> None:
    x = torch.arange(6.0).view(2, 3)
    y = x.to("mydev")
    for function in (torch.exp, torch.t, torch.clone, lambda t: t @ t.t(), lambda t: torch.cat([t, t]), torch.sort):
        torch.testing.assert_close(function(y), function(x), check_device=False)
    out = torch.empty(0, device="mydev")
    torch.add(y, 1, out=out)
    torch.testing.assert_close(out.cpu(), x + 1)
