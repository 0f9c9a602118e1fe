"""Typed tensors, torch.mydev.FloatTensor and its like, and torch.set_default_tensor_type with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}
PER_TYPE = pytest.mark.parametrize(("name", "dtype"), DTYPES.items())


@pytest.fixture
def _defaults_return() -> Iterator[None]:
    yield
    torch.set_default_tensor_type(torch.FloatTensor)


@PER_TYPE
def test_makes_tensors_of_sizes_and_of_values(name: str, dtype: torch.dtype) -> None:
    made = getattr(torch.mydev, name)
    for tensor in (made(2, 3), made(torch.Size([2, 3])), made([[1, 0, 1], [0, 1, 1]])):
        assert (tensor.shape, tensor.dtype, tensor.device.type) == ((2, 3), dtype, "mydev")
    torch.testing.assert_close(made([1, 0]).cpu(), torch.tensor([1, 0], dtype=dtype))
    assert made().shape == (0,)


@PER_TYPE
def test_knows_its_instances(name: str, dtype: torch.dtype) -> None:
    of_type = getattr(torch.mydev, name)
    assert isinstance(torch.ones(2, dtype=dtype, device="mydev"), of_type)
    assert not isinstance(torch.ones(2, dtype=dtype), of_type)
    assert not isinstance(torch.ones(2, dtype=torch.complex64, device="mydev"), of_type)
    assert not isinstance(3, of_type)
    assert of_type.dtype == dtype


@PER_TYPE
def test_tensors_become_of_the_type(name: str, dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1]).type(getattr(torch.mydev, name))
    assert (tensor.dtype, tensor.device.type) == (dtype, "mydev")
    assert tensor.type() == f"torch.mydev.{name}"


@pytest.mark.usefixtures("_defaults_return")
@pytest.mark.parametrize("name", ["torch.mydev.DoubleTensor", None])
def test_becomes_the_default(name: str | None) -> None:
    torch.set_default_tensor_type(name or torch.mydev.DoubleTensor)
    assert torch.get_default_dtype() == torch.float64
    assert torch.zeros(2).device.type == "mydev"
    assert torch.tensor([1.0]).dtype == torch.float64
    torch.set_default_tensor_type(torch.FloatTensor)
    assert (torch.zeros(2).device.type, torch.zeros(2).dtype) == ("cpu", torch.float32)


def test_integers_are_no_default() -> None:
    with pytest.raises(TypeError, match="floating-point"):
        torch.set_default_tensor_type(torch.mydev.IntTensor)


def test_other_devices_types_are_torchs_own_business() -> None:
    with pytest.raises(TypeError):
        torch.set_default_tensor_type("torch.LongTensor")
