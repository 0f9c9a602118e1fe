"""Saving, loading, pickling and copying of tensors on the device."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64]


def reload(value: Any, zipped: bool = True, **options: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped)
    buffer.seek(0)
    return torch.load(buffer, **options)


@FORMATS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype: torch.dtype, zipped: bool) -> None:
    tensor = torch.arange(6).view(2, 3).to(dtype).to("mydev")
    loaded = reload(tensor, zipped)
    assert (loaded.device, loaded.dtype) == (tensor.device, dtype)
    assert torch.equal(loaded.cpu(), tensor.cpu())


@FORMATS
@pytest.mark.parametrize("weights_only", [True, False])
def test_map_location_to_the_cpu(zipped: bool, weights_only: bool) -> None:
    loaded = reload(torch.arange(3, device="mydev"), zipped, map_location="cpu", weights_only=weights_only)
    assert loaded.device.type == "cpu"
    assert loaded.tolist() == [0, 1, 2]


@FORMATS
@pytest.mark.parametrize("location", ["mydev", "mydev:0", torch.device("mydev", 0), {"cpu": "mydev:0"}], ids=str)
def test_map_location_from_the_cpu(zipped: bool, location: Any) -> None:
    loaded = reload(torch.arange(3), zipped, map_location=location)
    assert loaded.device == torch.device("mydev", 0)
    assert loaded.tolist() == [0, 1, 2]


def test_map_location_by_function() -> None:
    seen: list[str] = []

    def keep(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage:
        seen.append(location)
        return storage

    loaded = reload(torch.arange(3, device="mydev"), map_location=keep)
    assert seen == ["mydev:0"]
    assert loaded.device.type == "cpu"


@pytest.mark.devices(2)
def test_index_is_kept_and_can_be_mapped() -> None:
    tensor = torch.arange(3, device="mydev:1")
    assert reload(tensor).device.index == 1
    assert reload(tensor, map_location="mydev:0").device.index == 0
    assert reload(tensor, map_location={"mydev:1": "mydev:0"}).device.index == 0


def test_location_of_a_device_that_does_not_exist() -> None:
    count = torch.accelerator.device_count()
    with pytest.raises(RuntimeError, match=f"device {count + 3} but torch.mydev.device_count"):
        reload(torch.arange(3), map_location=f"mydev:{count + 3}")


@FORMATS
def test_shared_storages_stay_shared(zipped: bool) -> None:
    base = torch.zeros(4, device="mydev")
    loaded = reload([base, base[1:3]], zipped)
    loaded[0].fill_(7)
    assert loaded[1].tolist() == [7.0, 7.0]
    assert loaded[1].storage_offset() == 1


@FORMATS
def test_strides_survive(zipped: bool) -> None:
    tensor = torch.arange(6, device="mydev").view(2, 3).t()
    loaded = reload(tensor, zipped)
    assert loaded.stride() == (1, 3)
    assert loaded.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_conjugate_and_negative_views_survive() -> None:
    tensor = torch.tensor([1 + 2j], device="mydev")
    assert reload(tensor.conj()).resolve_conj().tolist() == [1 - 2j]
    assert reload(tensor.conj().imag).resolve_neg().tolist() == [-2.0]


def test_parameters_and_gradient_flags_survive() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, device="mydev"))
    loaded = reload(parameter)
    assert isinstance(loaded, torch.nn.Parameter)
    assert loaded.requires_grad


def test_empty_and_scalar_tensors() -> None:
    loaded = reload([torch.empty(0, 3, device="mydev"), torch.tensor(5.0, device="mydev")])
    assert loaded[0].shape == (0, 3)
    assert loaded[1].item() == 5.0


@FORMATS
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages(zipped: bool) -> None:
    storage = torch.arange(3, device="mydev").storage()
    loaded = reload(storage, zipped, weights_only=False)
    assert loaded.device == storage.device
    assert loaded.cpu().tolist() == [0, 1, 2]


def test_untyped_storages() -> None:
    storage = torch.arange(3, dtype=torch.uint8, device="mydev").untyped_storage()
    loaded = reload(storage, weights_only=False)
    assert loaded.device == storage.device
    assert loaded.cpu().tolist() == [0, 1, 2]


def test_state_dict_of_a_model_moves_between_devices(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).to("mydev")
    model(torch.randn(5, 4, device="mydev"))
    path = tmp_path / "model.pt"
    torch.save(model.state_dict(), path)
    on_cpu = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    on_cpu.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    x = torch.randn(5, 4)
    torch.testing.assert_close(model.eval()(x.to("mydev")).cpu(), on_cpu.eval()(x))


def test_mmap(tmp_path: Path) -> None:
    path = tmp_path / "tensors.pt"
    torch.save({"a": torch.arange(1000)}, path)
    loaded = torch.load(path, map_location="mydev", mmap=True)
    assert loaded["a"].device.type == "mydev"
    assert int(loaded["a"].sum()) == 499500


def test_optimizer_state_round_trip() -> None:
    parameter = torch.ones(3, device="mydev", requires_grad=True)
    optimizer = torch.optim.AdamW([parameter], lr=0.1)
    parameter.sum().backward()
    optimizer.step()
    state = reload(optimizer.state_dict())
    other = torch.optim.AdamW([parameter.detach().clone().requires_grad_()], lr=0.1)
    other.load_state_dict(state)
    assert other.state[other.param_groups[0]["params"][0]]["exp_avg"].device.type == "mydev"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    tensor = torch.arange(3, device="mydev")
    loaded = pickle.loads(pickle.dumps(tensor, protocol))
    assert loaded.device == tensor.device
    assert loaded.tolist() == [0, 1, 2]


def test_deepcopy_keeps_sharing_and_gradients() -> None:
    base = torch.zeros(4, device="mydev", requires_grad=True)
    base.grad = torch.ones(4, device="mydev")
    view = base.detach()[1:3]
    copied_base, copied_view = copy.deepcopy([base, view])
    with torch.no_grad():
        copied_base.fill_(3)
    assert copied_view.tolist() == [3.0, 3.0]
    assert base.tolist() == [0.0] * 4
    assert copied_base.grad is not None
    assert copied_base.grad.tolist() == [1.0] * 4


def test_deepcopy_of_a_module() -> None:
    module = torch.nn.Linear(2, 2).to("mydev")
    copied = copy.deepcopy(module)
    assert copied.weight.device.type == "mydev"
    assert copied.weight.data_ptr() != module.weight.data_ptr()


def test_deepcopy_of_a_storage() -> None:
    storage = torch.arange(3, device="mydev").untyped_storage()
    copied = copy.deepcopy(storage)
    assert copied.device == storage.device
    assert copied.data_ptr() != storage.data_ptr()


def test_random_state_round_trip() -> None:
    state = reload(torch.get_device_module("mydev").get_rng_state())
    first = torch.rand(3, device="mydev")
    torch.get_device_module("mydev").set_rng_state(state)
    assert torch.equal(torch.rand(3, device="mydev").cpu(), first.cpu())


@FORMATS
@pytest.mark.parametrize("kept", [0, 10, 200, 5000])
def test_truncated_file_is_refused_and_leaves_nothing_behind(tmp_path: Path, zipped: bool, kept: int) -> None:
    path = tmp_path / "cut.pt"
    torch.save(torch.arange(1000, device="mydev"), path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[:kept])
    before = torch.accelerator.memory_allocated()
    with pytest.raises((RuntimeError, EOFError, OSError, pickle.UnpicklingError)):
        torch.load(path)
    assert torch.accelerator.memory_allocated() == before
    assert torch.ones(2, device="mydev").tolist() == [1.0, 1.0]


def test_file_that_is_no_checkpoint_is_refused() -> None:
    with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError)):
        torch.load(io.BytesIO(bytes(100)), map_location="mydev")


def test_state_dict_of_another_model_is_refused() -> None:
    state = reload(torch.nn.Linear(2, 3).to("mydev").state_dict())
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        torch.nn.Linear(3, 3).to("mydev").load_state_dict(state)


def test_location_tags() -> None:
    storage = torch.empty(1, device="mydev").untyped_storage()
    assert torch.serialization.location_tag(storage) == "mydev:0"
    restored = torch.serialization.default_restore_location(torch.empty(1).untyped_storage(), "mydev:0")
    assert restored.device == torch.device("mydev", 0)
