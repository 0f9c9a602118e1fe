"""The history of device memory: recording it, snapshots, PyTorch's viewer, observers of failed allocations."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

memory = torch.mydev.memory
LARGE = 5 << 20  # bytes, of no size that tests elsewhere use


@pytest.fixture(autouse=True)
def _recording_ends() -> Iterator[None]:
    torch.mydev.empty_cache()
    yield
    memory._record_memory_history(None)


def allocate() -> torch.Tensor:
    return torch.empty(LARGE, dtype=torch.uint8, device="mydev")


def events_of(address: int) -> list[dict[str, Any]]:
    return [event for event in memory._snapshot()["device_traces"][0] if event.get("addr") == address]


def block_at(address: int) -> dict[str, Any]:
    blocks = [block for segment in memory._snapshot()["segments"] for block in segment["blocks"]]
    (found,) = [block for block in blocks if block["address"] == address]
    return found


def functions(frames: list[dict[str, Any]]) -> set[str]:
    return {frame["name"] for frame in frames}


def test_records_the_life_of_a_block() -> None:
    memory._record_memory_history()
    x = allocate()
    address = x.data_ptr()
    del x
    gc.collect()
    actions = [event["action"] for event in events_of(address)]
    assert actions[0] in ("segment_alloc", "alloc")
    assert [action for action in actions if action != "segment_alloc"] == ["alloc", "free_requested", "free_completed"]


def test_events_have_what_the_viewer_reads() -> None:
    memory._record_memory_history()
    x = allocate()
    (event,) = [event for event in events_of(x.data_ptr()) if event["action"] == "alloc"]
    assert event["size"] >= LARGE
    assert event["stream"] == 0
    assert event["time_us"] > 1_600_000_000_000_000
    frames = event["frames"]
    assert {"allocate", "test_events_have_what_the_viewer_reads"} <= functions(frames)
    assert set(frames[0]) >= {"filename", "line", "name"}


def test_live_blocks_say_who_allocated_them() -> None:
    memory._record_memory_history("state")
    x = allocate()
    assert "allocate" in functions(block_at(x.data_ptr())["frames"])
    assert "allocate" in functions(memory._allocation_traceback(x.data_ptr()) or [])
    assert not events_of(x.data_ptr())


def test_memory_from_before_has_no_frames() -> None:
    x = allocate()
    memory._record_memory_history()
    assert block_at(x.data_ptr())["frames"] == []
    assert memory._allocation_traceback(x.data_ptr()) is None


@pytest.mark.parametrize(
    ("context", "live", "alloc", "free"),
    [
        (None, False, False, False),
        ("state", True, False, False),
        ("alloc", True, True, False),
        ("all", True, True, True),
    ],
)
def test_context_says_which_stacks_are_kept(context: Any, live: bool, alloc: bool, free: bool) -> None:
    memory._record_memory_history(context=context)
    x = allocate()
    address = x.data_ptr()
    assert bool(block_at(address)["frames"]) == live
    del x
    stacks = {event["action"]: bool(event["frames"]) for event in events_of(address)}
    assert (stacks["alloc"], stacks["free_requested"]) == (alloc, free)


def test_segments_come_and_go() -> None:
    memory._record_memory_history()
    address = allocate().data_ptr()
    torch.mydev.empty_cache()
    actions = [event["action"] for event in events_of(address)]
    assert (actions[0], actions[-1]) == ("segment_alloc", "segment_free")


@pytest.mark.parametrize(("metadata", "kept"), [("step 3", "step 3"), ({"layer": 2}, '{"layer":2}')])
def test_events_carry_the_metadata_of_their_thread(metadata: Any, kept: str) -> None:
    memory._record_memory_history()
    memory._set_memory_metadata(metadata)
    try:
        x = allocate()
        assert memory._get_memory_metadata() == kept
    finally:
        memory._set_memory_metadata("")
    y = allocate()
    texts = [events_of(tensor.data_ptr())[-1]["user_metadata"] for tensor in (x, y)]
    assert texts == [kept, ""]


def test_annotations_are_events_at_the_address_of_the_storage() -> None:
    memory._record_memory_history()
    x = allocate()
    memory._annotate_tensor(x[4096:], "kept for backward")
    event = events_of(x.data_ptr())[-1]
    assert (event["action"], event["user_metadata"]) == ("annotate", "kept for backward")
    assert "test_annotations_are_events_at_the_address_of_the_storage" in functions(event["frames"])


def test_only_memory_of_the_device_is_annotated() -> None:
    with pytest.raises(ValueError, match="cpu"):
        memory._annotate_tensor(torch.zeros(2), "on the host")


def test_keeps_the_latest_events() -> None:
    memory._record_memory_history(max_entries=2)
    for _ in range(5):
        x = allocate()
        address = x.data_ptr()
        del x
    events = memory._snapshot()["device_traces"][0]
    assert [event["action"] for event in events] == ["free_requested", "free_completed"]
    assert {event["addr"] for event in events} == {address}


def test_skips_actions() -> None:
    memory._record_memory_history(skip_actions=["free_requested"])
    address = allocate().data_ptr()
    assert "free_requested" not in [event["action"] for event in events_of(address)]


@pytest.mark.parametrize("clear", [True, False])
def test_clears_on_request(clear: bool) -> None:
    memory._record_memory_history()
    address = allocate().data_ptr()
    memory._record_memory_history(clear_history=clear)
    assert bool(events_of(address)) != clear


def test_nothing_is_recorded_when_off() -> None:
    memory._record_memory_history()
    memory._record_memory_history(None)
    address = allocate().data_ptr()
    assert not events_of(address)


@pytest.mark.parametrize(
    ("name", "value"),
    [("enabled", "some"), ("context", "none"), ("stacks", "cpp"), ("skip_actions", ["frees"]), ("max_entries", -1)],
)
def test_wrong_options_are_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        memory._record_memory_history(**{name: value})


@pytest.mark.parametrize(
    "view", [_memory_viz.trace_plot, _memory_viz.segment_plot, _memory_viz.segsum, _memory_viz.trace]
)
def test_dumped_snapshot_opens_in_the_viewer(tmp_path: Path, view: Any) -> None:
    memory._record_memory_history()
    kept = allocate()
    allocate()
    path = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(str(path))
    with path.open("rb") as file:
        snapshot = pickle.load(file)
    shown = view(snapshot)
    assert shown
    del kept


@pytest.mark.parametrize("what", ["segments", "memory"])
def test_flame_graphs_name_the_function(what: str) -> None:
    memory._record_memory_history()
    kept = allocate()
    lines = getattr(_memory_viz, what)(memory._snapshot(), format_flamegraph=lambda text: text)
    assert ":allocate" in lines
    del kept


def test_snapshot_of_a_device() -> None:
    x = allocate()
    assert {segment["device"] for segment in memory._snapshot(0)["segments"]} == {0}
    del x


def test_snapshot_of_the_accelerator_is_that_of_the_device() -> None:
    memory._record_memory_history()
    x = allocate()
    snapshot = torch.accelerator.memory._snapshot()
    assert x.data_ptr() in [event.get("addr") for event in snapshot["device_traces"][0]]
    assert {segment["device"] for segment in torch.accelerator.memory._snapshot(0)["segments"]} == {0}


def test_threads_record_too() -> None:
    memory._record_memory_history()
    w = torch.ones(1 << 18, device="mydev", requires_grad=True)
    (w * w).sum().backward()
    assert w.grad is not None
    assert any(event["action"] == "alloc" for event in events_of(w.grad.data_ptr()))


# --- out of memory ----------------------------------------------------------------------------------------------------


def fail_to_allocate() -> int:
    torch.mydev.set_per_process_memory_fraction(0.01)
    asked = torch.mydev.get_device_properties().total_memory // 2
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(asked, dtype=torch.uint8, device="mydev")
    finally:
        torch.mydev.set_per_process_memory_fraction(1.0)
    return asked


def test_failed_allocation_is_an_event() -> None:
    memory._record_memory_history()
    asked = fail_to_allocate()
    (event,) = [event for event in memory._snapshot()["device_traces"][0] if event["action"] == "oom"]
    assert event["size"] == asked
    assert event["device_free"] > 0
    assert "fail_to_allocate" in functions(event["frames"])


def test_observer_is_called_and_may_look_at_memory() -> None:
    seen: list[tuple[int, int, int, int, int]] = []
    active = True

    def observer(device: int, asked: int, total: int, free: int) -> None:
        if active:
            seen.append((device, asked, total, free, len(memory._snapshot()["segments"])))

    memory.attach_out_of_memory_observer(observer)
    kept = allocate()
    asked = fail_to_allocate()
    active = False
    ((device, size, total, free, segments),) = seen
    assert (device, size, total) == (0, asked, torch.mydev.get_device_properties().total_memory)
    assert 0 < free <= total
    assert segments > 0
    del kept


def test_observer_must_be_callable() -> None:
    with pytest.raises(TypeError, match="callable"):
        memory.attach_out_of_memory_observer(3)
