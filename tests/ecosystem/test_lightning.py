"""Lightning's Trainer and Fabric: accelerator by name and by "auto", strategies, precisions that are computed in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from support.programs import program, start

pytestmark = [pytest.mark.program, pytest.mark.filterwarnings("ignore::UserWarning")]

#: The accuracy of half precision in a few steps of training, measured against float32 on the CPU.
HALF = {"rtol": 1e-2, "atol": 1e-2}
PRECISIONS = [
    ("32-true", "torch.float32", {}),
    ("bf16-mixed", "torch.bfloat16", HALF),
    ("16-mixed", "torch.float16", HALF),
]
EACH_PRECISION = pytest.mark.parametrize(("precision", "dtype", "tolerance"), PRECISIONS, ids=lambda value: str(value))


@EACH_PRECISION
@pytest.mark.parametrize("accelerator", ["auto", "mydev", "gpu"])
def test_trainer_trains_on_the_device(
    accelerator: str, precision: str, dtype: str, tolerance: dict[str, float]
) -> None:
    run = program("lightning_trainer")
    result = run(accelerator=accelerator, devices=1, precision=precision)
    assert (result["device"], result["strategy"]) == ("mydev:0", "SingleDeviceStrategy")
    assert result["computed in"] == [dtype]
    assert result["scaler"] == (precision == "16-mixed")
    torch.testing.assert_close(result["losses"], run(accelerator="cpu", devices=1)["losses"], **tolerance)


@pytest.mark.parametrize(
    ("strategy", "precision", "dtype", "tolerance"),
    [("ddp", *PRECISIONS[0]), ("ddp", *PRECISIONS[2]), *(("fsdp", *row) for row in PRECISIONS)],
)
def test_trainer_trains_in_several_processes(
    strategy: str, precision: str, dtype: str, tolerance: dict[str, float]
) -> None:
    options = (f"strategy={strategy}", f"precision={precision}", "devices=2")
    result, _ = start("lightning_trainer", *options, MYDEV_DRIVER="host:devices=2")
    expected, _ = start("lightning_trainer", "strategy=ddp", "accelerator=cpu", "devices=2")
    assert (result["device"], result["computed in"]) == ("mydev:0", [dtype])
    assert result["strategy"] == {"ddp": "DDPStrategy", "fsdp": "FSDPStrategy"}[strategy]
    assert result["scaler"] == (precision == "16-mixed")
    torch.testing.assert_close(result["losses"], expected["losses"], **tolerance)


@EACH_PRECISION
def test_fabric_trains_on_the_device(precision: str, dtype: str, tolerance: dict[str, float]) -> None:
    run = program("lightning_fabric")
    result = run(precision=precision, devices=1)
    assert (result["device"], result["computed in"]) == ("mydev:0", [dtype])
    torch.testing.assert_close(result["losses"], run(accelerator="cpu", devices=1)["losses"], **tolerance)


def test_plain_program_says_where_it_runs() -> None:
    result, said = start("lightning_trainer", "devices=1")
    assert result["device"] == "mydev:0"
    assert said.count("mydev: Lightning runs on the device 'mydev'") == 1


def test_switched_off_it_is_on_the_cpu() -> None:
    result, said = start("lightning_trainer", "devices=1", MYDEV_INTEGRATIONS="off")
    assert result["device"] == "cpu"
    assert "mydev" not in said


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(1, [0]), (2, [0, 1]), (-1, [0, 1]), ("-1", [0, 1]), ("2", [0, 1]), ("1,", [1]), ([1], [1]), ("auto", [0, 1])],
)
@pytest.mark.devices(2)
def test_devices_are_chosen_by_number_and_by_list(devices: Any, expected: list[int]) -> None:
    from lightning.pytorch.accelerators import AcceleratorRegistry

    own = AcceleratorRegistry.get("mydev")
    chosen = own.parse_devices(own.auto_device_count() if devices == "auto" else devices)
    assert chosen == expected


@pytest.mark.parametrize("devices", [99, [99], [0, 0], "0,99"])
def test_devices_that_are_not_there_are_refused(devices: Any) -> None:
    import lightning

    with pytest.raises(ValueError, match=r"MYDEV_DRIVER=host:devices=N"):
        lightning.Trainer(accelerator="mydev", devices=devices, logger=False)
