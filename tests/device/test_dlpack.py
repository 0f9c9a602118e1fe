"""Exchange with other libraries: DLPack, numpy and the array protocols."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, to_dlpack

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip_by_the_protocol_shares_memory(dtype: torch.dtype) -> None:
    tensor = torch.ones(2, 3, device="mydev").to(dtype)
    other = torch.from_dlpack(tensor)
    assert (other.device, other.dtype, other.shape) == (tensor.device, dtype, tensor.shape)
    assert other.data_ptr() == tensor.data_ptr()
    other.zero_()
    assert not tensor.cpu().any()


def test_round_trip_by_capsule_shares_memory() -> None:
    tensor = torch.arange(4, device="mydev")
    assert torch.from_dlpack(to_dlpack(tensor)).data_ptr() == tensor.data_ptr()


def test_device_is_an_extension_with_the_tensors_index() -> None:
    tensor = torch.ones(2, device="mydev")
    assert tensor.__dlpack_device__() == (DLDeviceType.kDLExtDev, tensor.device.index)


def test_strides_and_offset_survive() -> None:
    tensor = torch.arange(12, device="mydev").view(3, 4)[1:, ::2]
    other = torch.from_dlpack(tensor)
    assert other.stride() == tensor.stride()
    assert other.cpu().tolist() == [[4, 6], [8, 10]]


def test_memory_outlives_the_exporter() -> None:
    tensor = torch.arange(1000, device="mydev")
    other = torch.from_dlpack(tensor)
    del tensor
    torch.full((1000,), -1, device="mydev")
    assert int(other.cpu().sum()) == 499500


def test_capsule_that_nobody_takes_is_freed() -> None:
    before = torch.accelerator.memory_allocated()
    capsule = to_dlpack(torch.ones(1 << 16, device="mydev"))
    del capsule
    assert torch.accelerator.memory_allocated() == before


def test_capsule_is_taken_once() -> None:
    capsule = to_dlpack(torch.ones(2, device="mydev"))
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match=r"consumed|once"):
        torch.from_dlpack(capsule)


def test_tensor_that_needs_gradients_is_refused() -> None:
    with pytest.raises((RuntimeError, BufferError), match="gradient"):
        torch.from_dlpack(torch.ones(2, device="mydev", requires_grad=True))


def test_copy_on_request() -> None:
    tensor = torch.ones(2, device="mydev")
    assert torch.from_dlpack(tensor, copy=True).data_ptr() != tensor.data_ptr()


def test_import_from_numpy_and_on_to_the_device() -> None:
    array = numpy.arange(3, dtype=numpy.float32)
    assert torch.from_dlpack(array).to("mydev").tolist() == [0.0, 1.0, 2.0]
    assert torch.from_numpy(array).to("mydev").tolist() == [0.0, 1.0, 2.0]
    assert torch.tensor(array, device="mydev").tolist() == [0.0, 1.0, 2.0]
    assert torch.as_tensor(array, device="mydev").tolist() == [0.0, 1.0, 2.0]


def test_export_to_numpy_by_dlpack_is_refused() -> None:
    with pytest.raises((RuntimeError, BufferError, TypeError)):
        numpy.from_dlpack(torch.ones(2, device="mydev"))


def test_numpy_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"can't convert mydev:0 device type tensor to numpy.*\.cpu\(\)"):
        torch.ones(2, device="mydev").numpy()


def test_forced_numpy_copies() -> None:
    tensor = torch.arange(3, device="mydev", dtype=torch.float32).requires_grad_()
    array = tensor.numpy(force=True)
    array[0] = 9
    assert array.tolist() == [9.0, 1.0, 2.0]
    assert tensor.tolist() == [0.0, 1.0, 2.0]


def test_forced_numpy_resolves_conjugates() -> None:
    tensor = torch.tensor([1 + 2j], device="mydev").conj()
    assert tensor.numpy(force=True).tolist() == [1 - 2j]


def test_array_protocol_is_refused_as_on_cuda() -> None:
    with pytest.raises(TypeError, match="can't convert mydev:0 device type tensor to numpy"):
        numpy.asarray(torch.ones(2, device="mydev"))


def test_python_numbers_and_lists() -> None:
    tensor = torch.tensor([[1.5, 2.5]], device="mydev")
    assert tensor.tolist() == [[1.5, 2.5]]
    assert float(tensor[0, 0]) == 1.5
    assert int(tensor[0, 1]) == 2
    assert bool(tensor[0, 0])
    assert [row.shape for row in tensor] == [torch.Size([2])]


def test_cuda_array_interface_is_absent() -> None:
    assert not hasattr(torch.ones(2, device="mydev"), "__cuda_array_interface__")
