"""safetensors: files are read to the device by its name, whole and in parts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

safetensors = pytest.importorskip("safetensors", reason="safetensors comes with transformers, requirements/models.txt")
from safetensors.torch import load_file, save_file  # noqa: E402

TENSORS = {
    "matrix": torch.arange(6.0).reshape(2, 3),
    "halves": torch.ones(3, dtype=torch.bfloat16),
    "empty": torch.empty(0, 4),
    "number": torch.tensor(7),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tensors.safetensors"
    save_file(TENSORS, path)
    return path


@pytest.mark.parametrize("name", ["mydev", "mydev:0", torch.device("mydev"), 0])
def test_load_file_reads_to_the_device(file: Path, name: str | int | torch.device) -> None:
    loaded = load_file(file, device=name)  # type: ignore[arg-type]
    assert {tensor.device for tensor in loaded.values()} == {torch.device("mydev:0")}
    torch.testing.assert_close({key: tensor.cpu() for key, tensor in loaded.items()}, TENSORS, rtol=0, atol=0)


def test_safe_open_reads_parts_to_the_device(file: Path) -> None:
    with safetensors.safe_open(file, framework="pt", device="mydev") as opened:
        assert set(opened.keys()) == set(TENSORS)
        part = opened.get_slice("matrix")[:, 1:]
    assert part.device == torch.device("mydev:0")
    assert part.tolist() == [[1, 2], [4, 5]]


@pytest.mark.devices(2)
def test_devices_are_told_apart(file: Path) -> None:
    assert load_file(file, device="mydev:1")["matrix"].device == torch.device("mydev:1")


def test_absent_devices_are_refused(file: Path) -> None:
    with pytest.raises(RuntimeError, match="invalid device index 99"):
        load_file(file, device="mydev:99")


def test_other_devices_are_the_librarys_own(file: Path) -> None:
    assert load_file(file)["matrix"].device.type == "cpu"
    with pytest.raises(safetensors.SafetensorError, match="device nodev is invalid"):
        load_file(file, device="nodev")


@pytest.mark.any_driver
def test_switched_off_the_name_is_refused(
    run_python: Callable[..., subprocess.CompletedProcess[str]], file: Path
) -> None:
    code = f"import torch\nfrom safetensors.torch import load_file\nload_file({str(file)!r}, device='mydev')"
    result = run_python(code, fresh=True, MYDEV_INTEGRATIONS="off")
    assert "device mydev is invalid" in result.stderr
