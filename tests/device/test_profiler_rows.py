"""The device's rows in torch.profiler: kernels, copies and fills by stream, and what they are linked to."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

from support.checkout import DRIVERS

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def step() -> None:
    x = torch.ones(8, 8, device="mydev", requires_grad=True)
    (x @ x).relu().sum().backward()
    torch.accelerator.synchronize()


Trace = list[dict[str, Any]]


def rows_of(prof: profile, tmp_path: Path) -> Trace:
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    events: Trace = json.loads(path.read_text())["traceEvents"]
    return events


def named(trace: Trace, name: str) -> dict[str, Any]:
    (row,) = [event for event in trace if event.get("name") == name]
    return row


def device_rows(prof: profile, name: str) -> list[Any]:
    return [event for event in prof.events() if event.name == name and event.device_type == DeviceType.PrivateUse1]


def test_default_activities_have_the_device() -> None:
    with profile() as prof:
        step()
    assert device_rows(prof, "mydev.relu")


def test_rows_of_the_device_alone() -> None:
    with profile(activities=[ProfilerActivity.PrivateUse1]) as prof:
        step()
    names = {event.key for event in prof.key_averages()}
    assert {"mydev.relu", "mydevLaunchKernel"} <= names
    assert not any(name.startswith("aten::") and "sort" not in name for name in names)


def test_cpu_activity_alone_has_no_rows_of_the_device() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        step()
    assert not device_rows(prof, "mydev.relu")


def test_row_of_a_kernel(tmp_path: Path) -> None:
    x = torch.ones(3, 4, device="mydev")
    with profile() as prof:
        x.relu()
    row = named(rows_of(prof, tmp_path), "mydev.relu")
    assert row["cat"] == "kernel"
    assert (row["pid"], row["tid"]) == (0, 0)
    assert row["args"]["bytes"] == 2 * 12 * 4
    assert row["args"]["operands"] == "mydev.relu(out f32[12], f32[12])"
    assert row["dur"] > 0


@pytest.mark.parametrize(("name", "work"), [("Memcpy HtoD", "to"), ("Memcpy DtoH", "from")])
def test_rows_of_copies(tmp_path: Path, name: str, work: str) -> None:
    x = torch.ones(256, device="mydev" if work == "from" else "cpu")
    with profile() as prof:
        x.to("cpu" if work == "from" else "mydev")
    row = named(rows_of(prof, tmp_path), name)
    assert row["cat"] == "gpu_memcpy"
    assert row["args"]["bytes"] == 1024


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("copy", [torch.clone, lambda x: torch.empty_like(x).copy_(x)], ids=["clone", "copy_"])
def test_copies_on_the_device_have_rows_of_copies(
    tmp_path: Path, copy: Callable[[torch.Tensor], Any], layout: torch.memory_format
) -> None:
    x = torch.ones(2, 3, 4, 8, device="mydev").to(memory_format=layout)
    with profile() as prof:
        copy(x)
        torch.mydev.synchronize()
    row = named(rows_of(prof, tmp_path), "Memcpy DtoD")
    assert (row["cat"], row["args"]["bytes"]) == ("gpu_memcpy", x.nbytes)


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: x.t().contiguous(),
        lambda x: torch.empty_like(x).copy_(x[:, :1]),
        lambda x: x.half(),
        lambda x: x.to(torch.complex64).conj().resolve_conj(),
    ],
    ids=["other strides", "broadcast", "other dtype", "conjugate"],
)
def test_copies_that_compute_have_rows_of_kernels(tmp_path: Path, copy: Callable[[torch.Tensor], Any]) -> None:
    x = torch.ones(4, 8, device="mydev")
    with profile() as prof:
        copy(x)
        torch.mydev.synchronize()
    trace = rows_of(prof, tmp_path)
    assert [event for event in trace if event.get("cat") == "kernel" and event["name"] == "mydev.copy"]
    assert not [event for event in trace if event.get("cat") == "gpu_memcpy"]


@pytest.mark.parametrize(
    ("fill", "shape"),
    [
        (lambda x: x.fill_(2.0), "f32[4,8]"),
        (lambda x: x.zero_(), "f32[4,8]"),
        (lambda x: x.t().fill_(2.0), "f32[8,4]{1,8}"),
        (lambda x: torch._foreach_zero_([x]), "f32[4,8]"),
        (lambda x: torch.zeros(4, 8, device=x.device), "f32[4,8]"),
        (lambda x: torch.full_like(x, 3), "f32[4,8]"),
    ],
    ids=["fill_", "zero_", "fill_ of a view", "_foreach_zero_", "zeros", "full_like"],
)
def test_row_of_a_fill(tmp_path: Path, fill: Callable[[torch.Tensor], Any], shape: str) -> None:
    x = torch.ones(4, 8, device="mydev")
    with profile() as prof:
        fill(x)
        torch.mydev.synchronize()
    trace = rows_of(prof, tmp_path)
    row, submission = named(trace, "Memset"), named(trace, "mydevMemset")
    assert row["cat"] == "gpu_memset"
    assert row["args"]["bytes"] == 4 * 8 * 4
    assert shape in row["args"]["operands"]
    assert row["args"]["memory bandwidth (GB/s)"] > 0
    assert row["args"]["correlation"] == submission["args"]["correlation"]
    assert not [event for event in trace if event.get("cat") == "kernel"]


@pytest.mark.any_driver
def test_fills_of_the_driver_have_rows(run_python: Run, tmp_path: Path) -> None:
    code = f"""
import torch, torch_mydev
x = torch.ones(4, 8, device="mydev")
with torch.profiler.profile() as prof:
    x.fill_(2.0)
    torch.mydev.synchronize()
prof.export_chrome_trace({str(tmp_path / "trace.json")!r})
"""
    result = run_python(code, MYDEV_DRIVER=str(DRIVERS / "discrete_driver.so"))
    assert result.returncode == 0, result.stderr
    trace: Trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    row = named(trace, "Memset")
    assert (row["cat"], row["args"]["bytes"]) == ("gpu_memset", 4 * 8 * 4)


def test_arrow_from_the_operator_through_the_launch_to_the_kernel(tmp_path: Path) -> None:
    x = torch.ones(3, device="mydev")
    with profile() as prof:
        x.sin()
    trace = rows_of(prof, tmp_path)
    operator, launch, kernel = named(trace, "aten::sin"), named(trace, "mydevLaunchKernel"), named(trace, "mydev.sin")
    assert kernel["args"]["External id"] == launch["args"]["External id"] == operator["args"]["External id"]
    assert kernel["args"]["correlation"] == launch["args"]["correlation"]
    begin, end = (next(e for e in trace if e.get("cat") == "ac2g" and e["ph"] == phase) for phase in "sf")
    assert begin["id"] == end["id"] == kernel["args"]["correlation"]
    assert (begin["pid"], begin["tid"], begin["ts"]) == (launch["pid"], launch["tid"], launch["ts"])
    assert (end["pid"], end["tid"], end["ts"]) == (kernel["pid"], kernel["tid"], kernel["ts"])
    assert (launch["pid"], launch["tid"]) == (operator["pid"], operator["tid"])
    assert operator["ts"] <= launch["ts"] <= operator["ts"] + operator["dur"]


def test_each_arrow_is_of_one_command(tmp_path: Path) -> None:
    with profile() as prof:
        step()
    flows = [event["id"] for event in rows_of(prof, tmp_path) if event.get("cat") == "ac2g" and event["ph"] == "s"]
    assert len(flows) == len(set(flows)) > 3


def test_device_columns_of_the_averages() -> None:
    x = torch.ones(64, 64, device="mydev")
    with profile() as prof:
        x @ x
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["aten::mm"].device_time_total == averages["mydev.matmul"].self_device_time_total > 0
    assert "MYDEV total" in prof.key_averages().table(sort_by="self_device_time_total")


def test_kernels_of_backward_belong_to_its_operators() -> None:
    x = torch.ones(8, device="mydev", requires_grad=True)
    with profile() as prof:
        x.sin().sum().backward()
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["SinBackward0"].device_time_total > 0


def test_row_leads_to_the_python_line(tmp_path: Path) -> None:
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    x = torch.ones(3, device="mydev")
    with profile(with_stack=True, experimental_config=verbose) as prof:
        x.sin()
    (kernel,) = device_rows(prof, "mydev.sin")
    (operator,) = [e for e in prof.events() if e.id == kernel.linked_correlation_id and e.device_type == DeviceType.CPU]
    assert any("test_profiler" in frame for frame in operator.stack)


def test_memory_events() -> None:
    with profile(profile_memory=True) as prof:
        x = torch.ones(1024, device="mydev")
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["aten::empty"].self_device_memory_usage >= x.nbytes


def test_range_of_the_user_on_the_device(tmp_path: Path) -> None:
    x = torch.ones(3, device="mydev")
    with profile() as prof, record_function("my range"):
        x.sin().cos()
    trace = rows_of(prof, tmp_path)
    (span,) = [event for event in trace if event.get("cat") == "gpu_user_annotation"]
    assert span["name"] == "my range"
    for name in ("mydev.sin", "mydev.cos"):
        kernel = named(trace, name)
        assert span["ts"] <= kernel["ts"] <= kernel["ts"] + kernel["dur"] <= span["ts"] + span["dur"]


def test_operator_that_runs_on_the_host_has_one_row() -> None:
    x = torch.rand(100, device="mydev")
    with profile() as prof:
        x.sort().values.cumsum(0)
    averages = {event.key: event for event in prof.key_averages()}
    assert averages["aten::cumsum"].device_time_total > 0


def test_compiled_graph_counts_once() -> None:
    x = torch.rand(64, 64, device="mydev")
    graph = torch.compile(lambda x: (x @ x).relu() + 1)
    graph(x)
    with profile() as prof:
        graph(x)
    rows = [event for event in prof.events() if event.device_type == DeviceType.PrivateUse1]
    kernels = {event.name for event in rows if not event.is_user_annotation}
    assert "mydev.matmul" in kernels
    spans = sorted((e.time_range.start, e.time_range.end) for e in rows if not e.is_user_annotation)
    assert all(before[1] <= after[0] + 1 for before, after in itertools.pairwise(spans))


def test_replayed_graph_has_a_row_for_each_kernel() -> None:
    x = torch.rand(16, device="mydev")
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        x.sin().cos()
    with profile() as prof:
        graph.replay()
        torch.mydev.synchronize()
    kernels = [event for event in prof.events() if event.device_type == DeviceType.PrivateUse1]
    assert kernels
    assert all(event.name.startswith("mydev.") for event in kernels)


def test_streams_have_rows_of_their_own(tmp_path: Path) -> None:
    x = torch.ones(3, device="mydev")
    side = torch.mydev.Stream()
    with profile() as prof:
        x.sin()
        side.wait_stream(torch.mydev.current_stream())
        with torch.mydev.stream(side):
            x.cos()
    trace = rows_of(prof, tmp_path)
    assert (named(trace, "mydev.sin")["tid"], named(trace, "mydev.cos")["tid"]) == (0, side.stream_id)
    threads = {event["tid"]: event["args"]["name"] for event in trace if event["name"] == "thread_name"}
    assert threads[0] == "stream 0 (default)"
    assert threads[side.stream_id] == f"stream {side.stream_id}"


@pytest.mark.devices(2)
def test_devices_have_processes_of_their_own(tmp_path: Path) -> None:
    inputs = [torch.ones(3, device=f"mydev:{index}") for index in range(2)]
    with profile() as prof:
        for x in inputs:
            x.sin()
        for index in range(2):
            torch.mydev.synchronize(index)
    trace = rows_of(prof, tmp_path)
    assert [row["pid"] for row in trace if row["name"] == "mydev.sin"] == [0, 1]
    processes = {row["pid"]: row["args"]["name"] for row in trace if row["name"] == "process_name"}
    assert (processes[0], processes[1]) == ("mydev:0", "mydev:1")


def test_work_of_other_threads_has_rows() -> None:
    x = torch.ones(3, device="mydev")
    thread = threading.Thread(target=x.sin)
    with profile() as prof:
        thread.start()
        thread.join()
    assert device_rows(prof, "mydev.sin")


def test_work_runs_after_it_was_submitted_and_one_after_the_other(tmp_path: Path) -> None:
    x = torch.ones(256, 256, device="mydev")
    with profile() as prof:
        for _ in range(4):
            x = x.sin()
    trace = rows_of(prof, tmp_path)
    kernels = [row for row in trace if row["name"] == "mydev.sin"]
    launches = {row["args"]["correlation"]: row for row in trace if row["name"] == "mydevLaunchKernel"}
    assert len(kernels) == 4
    assert all(row["ts"] >= launches[row["args"]["correlation"]]["ts"] for row in kernels)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in itertools.pairwise(kernels))


def test_a_kernel_that_waited_for_another_stream_shows_when_it_ran(tmp_path: Path) -> None:
    x = torch.ones(8, device="mydev")
    side = torch.mydev.Stream()
    with profile() as prof:
        torch.mydev._sleep(50_000_000)
        side.wait_stream(torch.mydev.current_stream())
        with torch.mydev.stream(side):
            x.cos()
        torch.mydev.synchronize()
    trace = rows_of(prof, tmp_path)
    sleep, kernel = named(trace, "sleep"), named(trace, "mydev.cos")
    assert kernel["ts"] >= sleep["ts"] + sleep["dur"] - 0.002
    assert kernel["dur"] < sleep["dur"]


def test_names_that_json_would_not_take(tmp_path: Path) -> None:
    with profile() as prof:
        torch.mydev.current_stream().launch_host_func(lambda: None, name='a "quoted" \\ name\n')
        torch.mydev.synchronize()
    assert any("'quoted'" in row.get("name", "") for row in rows_of(prof, tmp_path))


def test_schedule_gives_each_cycle_its_rows(tmp_path: Path) -> None:
    x = torch.ones(3, device="mydev")
    counts: list[int] = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2),
        on_trace_ready=lambda prof: counts.append(len(device_rows(prof, "mydev.sin"))),
    ) as prof:
        for _ in range(8):
            x.sin()
            prof.step()
    assert counts == [2, 2]


def test_tensorboard_handler(tmp_path: Path) -> None:
    x = torch.ones(3, device="mydev")
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), use_gzip=False)):
        x.sin()
    (path,) = tmp_path.glob("*.pt.trace.json")
    trace = json.loads(path.read_text())
    assert trace["deviceProperties"][0]["id"] == 0
    assert named(trace["traceEvents"], "mydev.sin")["cat"] == "kernel"


def test_nothing_is_recorded_outside_of_profiles() -> None:
    x = torch.ones(3, device="mydev")
    with profile() as first:
        x.sin()
    x.cos()
    with profile() as second:
        x.tan()
    assert (len(device_rows(first, "mydev.sin")), len(device_rows(second, "mydev.tan"))) == (1, 1)
    assert not device_rows(second, "mydev.cos")


@pytest.mark.any_driver
@pytest.mark.parametrize("driver", ["host", "/no/such/driver.so"])
def test_profile_without_the_device_loads_no_driver(run_python: Run, driver: str) -> None:
    code = """
import torch, torch_mydev
from torch import profiler
with profiler.profile() as prof:
    torch.ones(3) + 1
assert not torch.mydev.is_initialized()
assert "aten::add" in {event.key for event in prof.key_averages()}
"""
    result = run_python(code, MYDEV_DRIVER=driver)
    assert result.returncode == 0, result.stderr
