"""Several devices under PyTorch/XLA: in a thread for each, and by one program for all of them (SPMD).

Runs as test_torch_xla.py does, in an environment and in processes of its own.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
import torch
from device_cases import cases, given, training
from processes import output, run

_DEVICES = {"host:devices=2": 2, "host:devices=4": 4, "host:remote,async,guarded,devices=4": 4}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("devices")


@cache
def _results(folder: Path, driver: str) -> list[dict[str, object]]:
    """Returns the results of each device."""
    path = folder / driver
    result = run(["device_cases.py", str(path)], "MYDEV", driver)
    assert result.returncode == 0, result.stderr
    return [torch.load(f"{path}-{rank}") for rank in range(_DEVICES[driver])]


@pytest.mark.parametrize("driver", _DEVICES)
@pytest.mark.parametrize("name", cases())
def test_collective(name: str, driver: str, folder: Path) -> None:
    all_given = [given(rank) for rank in range(_DEVICES[driver])]
    actual = [result[name] for result in _results(folder, driver)]
    expected = [cases()[name][1](all_given, rank) for rank in range(_DEVICES[driver])]
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("driver", _DEVICES)
def test_training_on_parts_of_a_batch_is_as_on_the_whole(driver: str, folder: Path) -> None:
    expected = torch.tensor(training(0, 1, torch.device("cpu")))
    for result in _results(folder, driver):
        torch.testing.assert_close(torch.tensor(result["training"]), expected)


def test_devices_are_those_of_the_driver() -> None:
    code = "import torch_xla; print(len(torch_xla.devices()))"
    assert output(code, driver="host:devices=4").strip() == "4"
    assert output(code).strip() == "1"


def test_a_vendors_device_has_its_name(tmp_path: Path) -> None:
    """A package with the entry point ``acme``, which brings the host's driver."""
    metadata = tmp_path / "acme_torch-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-torch\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text("[mydev.drivers]\nacme = acme_torch:driver\n")
    (tmp_path / "acme_torch.py").write_text("""
from mydev.libraries import LIBRARIES
def driver():
    return {"library": str(LIBRARIES / "libmydev_host_driver.so"), "options": "devices=3"}
""")
    code = """
import torch, torch_xla, torch_xla.runtime as runtime
x = torch.ones(3, device="xla")
print(runtime.device_type(), len(torch_xla.devices()), torch_xla._XLAC._xla_real_devices(["xla:0"]), (x + 1).tolist())
"""
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
    result = output(code, device="ACME", driver="", PYTHONPATH=path)
    assert result.strip() == "ACME 3 ['ACME:0'] [2.0, 2.0, 2.0]"


def test_copies_between_devices() -> None:
    code = """
import torch, torch_xla
x = torch.arange(4.0, device="xla:0") + 5
print((x.to("xla:1") * 2).tolist(), x.tolist())
"""
    assert output(code, driver="host:devices=4").strip() == "[10.0, 12.0, 14.0, 16.0] [5.0, 6.0, 7.0, 8.0]"


_SHARDED = """
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ("data", "model"))
device = torch_xla.device()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
x, labels = torch.randn(8, 16), torch.arange(8) % 4
model, x, labels = model.to(device), x.to(device), labels.to(device)
if SHARDED:
    xs.mark_sharding(model[0].weight, mesh, ("model", None))
    xs.mark_sharding(model[2].weight, mesh, (None, "model"))
    xs.mark_sharding(x, mesh, ("data", None))
    xs.mark_sharding(labels, mesh, ("data",))
    assert torch_xla._XLAC._get_xla_sharding_spec(x) == "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"
    assert [shard.data.shape for shard in xs.wrap_if_sharded(x).local_shards] == [(4, 16)] * 4
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print(loss.item())
"""


@pytest.mark.parametrize("driver", ["host:devices=4", "host:remote,async,guarded,devices=4"])
def test_training_with_sharded_tensors_is_as_with_whole_ones(driver: str) -> None:
    sharded, whole = (
        torch.tensor([float(line) for line in output(_SHARDED.replace("SHARDED", value), driver=driver).splitlines()])
        for value in ("True", "False")
    )
    assert len(whole) == 3
    torch.testing.assert_close(sharded, whole)


def test_what_is_computed_by_hand_on_parts_is_whole_again() -> None:
    code = """
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ("data", "model"))
x = torch.arange(8.0).to("xla")
xs.mark_sharding(x, mesh, ("data",))
part = xs.enable_manual_sharding(x, ("data",), mesh=mesh).global_tensor
print(tuple(part.shape), xs.disable_manual_sharding(part * 2, ("data",), (8,), mesh=mesh).global_tensor.tolist())
"""
    assert output(code, driver="host:devices=4").strip() == "(4,) [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]"
