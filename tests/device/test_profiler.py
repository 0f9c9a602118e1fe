"""torch.profiler and the legacy torch.autograd.profiler on work of the device."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.autograd import profiler as legacy
from torch.profiler import ProfilerActivity, profile, record_function, schedule

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def step() -> None:
    x = torch.ones(8, 8, device="mydev", requires_grad=True)
    (x @ x).relu().sum().backward()
    torch.accelerator.synchronize()


def kineto() -> profile:
    return profile(activities=[ProfilerActivity.CPU])


def with_device() -> legacy.profile:
    return legacy.profile(use_device="mydev")


PROFILERS = pytest.mark.parametrize("make", [kineto, with_device, legacy.profile], ids=["kineto", "device", "legacy"])
Make = Callable[[], "profile | legacy.profile"]


@PROFILERS
@pytest.mark.parametrize("op", ["aten::mm", "aten::relu", "aten::sum"])
def test_sees_ops(make: Make, op: str) -> None:
    with make() as prof:
        step()
    assert op in {event.key for event in prof.key_averages()}


@PROFILERS
def test_sees_backward(make: Make) -> None:
    with make() as prof:
        step()
    assert any("Backward" in event.key for event in prof.key_averages())


@PROFILERS
def test_prints_no_warnings(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with make():
            step()
    assert "Warning" not in capfd.readouterr().err


@PROFILERS
def test_table(make: Make) -> None:
    with make() as prof:
        step()
    assert "aten::mm" in prof.key_averages().table(sort_by="self_cpu_time_total")


@PROFILERS
def test_counts_calls(make: Make) -> None:
    x = torch.ones(4, device="mydev")
    with make() as prof:
        for _ in range(7):
            x.sin()
    assert {event.key: event.count for event in prof.key_averages()}["aten::sin"] == 7


@PROFILERS
def test_can_be_used_again(make: Make) -> None:
    for _ in range(3):
        with make() as prof:
            step()
        assert len(prof.key_averages()) > 0


@PROFILERS
def test_survives_an_exception(make: Make) -> None:
    with pytest.raises(RuntimeError), make():
        torch.ones(2, 3, device="mydev") @ torch.ones(2, 3, device="mydev")
    with make() as prof:
        step()
    assert len(prof.key_averages()) > 0


@PROFILERS
def test_exports_a_chrome_trace(make: Make, tmp_path: Path) -> None:
    with make() as prof:
        step()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    loaded = json.loads(path.read_text())
    events = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
    assert any(event.get("name") == "aten::mm" for event in events)


@PROFILERS
def test_nested_ranges(make: Make) -> None:
    with make() as prof, record_function("outer"), record_function("inner"):
        step()
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["outer"].cpu_time_total >= averages["inner"].cpu_time_total > 0


def test_records_shapes() -> None:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        torch.ones(3, 4, device="mydev") @ torch.ones(4, 5, device="mydev")
    shapes = [event.input_shapes for event in prof.key_averages(group_by_input_shape=True) if event.key == "aten::mm"]
    assert [[3, 4], [4, 5]] in shapes


def test_records_stacks() -> None:
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)  # else stacks come with the exported trace only
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=verbose) as prof:
        step()
    assert any("test_profiler" in frame for event in prof.events() for frame in event.stack or [])


def test_schedule_of_a_training_loop() -> None:
    ready: list[int] = []
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=2),
        on_trace_ready=lambda prof: ready.append(prof.step_num),
    ) as prof:
        for _ in range(4):
            step()
            prof.step()
    assert ready == [4]


def test_device_times_of_the_legacy_profiler() -> None:
    with with_device() as prof:
        torch.ones(256, 256, device="mydev") @ torch.ones(256, 256, device="mydev")
        torch.accelerator.synchronize()
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["aten::mm"].device_time_total > 0


def test_device_times_of_nested_ops_add_up() -> None:
    x = torch.ones(64, 64, device="mydev")
    with with_device() as prof:
        torch.nn.functional.linear(x, x)
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["aten::linear"].device_time_total >= averages["aten::linear"].self_device_time_total


def test_table_has_a_column_for_the_device() -> None:
    with with_device() as prof:
        step()
    assert "mydev" in prof.key_averages().table().lower()


def test_work_on_side_streams() -> None:
    stream = torch.Stream("mydev")
    with with_device() as prof:
        with stream:
            step()
        stream.synchronize()
    assert "aten::mm" in {event.key for event in prof.key_averages()}


def test_events_and_profiler_together() -> None:
    begin, end = torch.Event("mydev", enable_timing=True), torch.Event("mydev", enable_timing=True)
    with with_device():
        begin.record()
        step()
        end.record()
        end.synchronize()
    assert begin.elapsed_time(end) >= 0


@pytest.mark.devices(2)
def test_several_devices() -> None:
    with with_device() as prof:
        for index in range(2):
            with torch.accelerator.device_index(index):
                torch.ones(4, device=f"mydev:{index}").sin()
    assert {event.key: event.count for event in prof.key_averages()}["aten::sin"] == 2
    assert torch.accelerator.current_device_index() == 0


def test_model_training_step() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("mydev")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with with_device() as prof:
        model(torch.ones(3, 4, device="mydev")).sum().backward()
        optimizer.step()
    keys = {event.key for event in prof.key_averages()}
    assert "aten::addmm" in keys
    assert any(key.startswith("Optimizer.step") for key in keys)


def test_emits_itt_ranges_without_harm() -> None:
    with legacy.record_function("range"):
        step()


def test_activity_carries_the_name() -> None:
    assert ProfilerActivity.PrivateUse1 == ProfilerActivity.MYDEV
