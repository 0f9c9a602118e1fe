"""Device memory as Python sees it: statistics, limits, out of memory, pinned memory; a training step is steady."""

from __future__ import annotations

import gc
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torch_mydev  # noqa: F401

Script = Callable[..., Any]
MiB = 1 << 20
mydev = torch.mydev


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    gc.collect()
    mydev.synchronize()
    mydev.empty_cache()
    before = mydev.memory_allocated()
    mydev.reset_peak_memory_stats()
    yield
    gc.collect()
    mydev.synchronize()
    mydev.empty_cache()  # collects blocks that other streams were using
    assert mydev.memory_allocated() == before


@pytest.fixture
def run_script(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Any]:
    """Runs code in a process of its own and returns what it leaves in ``result``."""
    prologue = "import json, torch, torch_mydev\nMiB = 1 << 20\nmydev = torch.mydev\n"

    def run(code: str, **options: Any) -> Any:
        done = run_python(f"{prologue}{code}\nprint(json.dumps(result))", **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def limit() -> Iterator[int]:
    """Limits the process to about 256 MiB of device memory."""
    _, total = mydev.mem_get_info()
    fraction = 256 * MiB / total
    mydev.set_per_process_memory_fraction(fraction)
    yield int(fraction * total)
    mydev.set_per_process_memory_fraction(1.0)


# --- statistics -------------------------------------------------------------------------------------------------------


def test_allocated_memory_follows_tensors() -> None:
    before = mydev.memory_allocated()
    tensor = torch.empty(4 * MiB, dtype=torch.uint8, device="mydev")
    assert mydev.memory_allocated() == before + 4 * MiB
    view = tensor[10:]
    del tensor
    assert mydev.memory_allocated() == before + 4 * MiB
    del view
    assert mydev.memory_allocated() == before


def test_freed_memory_stays_reserved_until_the_cache_is_emptied() -> None:
    before = mydev.memory_reserved()
    torch.empty(30 * MiB, dtype=torch.uint8, device="mydev")
    assert mydev.memory_reserved() == before + 30 * MiB
    mydev.empty_cache()
    assert mydev.memory_reserved() == before


def test_peak_is_remembered_until_it_is_reset() -> None:
    before = mydev.memory_allocated()
    torch.empty(8 * MiB, dtype=torch.uint8, device="mydev")
    assert mydev.max_memory_allocated() == before + 8 * MiB
    assert mydev.max_memory_reserved() >= before + 8 * MiB
    mydev.reset_peak_memory_stats()
    assert mydev.max_memory_allocated() == before


def test_totals_start_from_zero_after_a_reset() -> None:
    torch.empty(100, device="mydev")
    mydev.reset_accumulated_memory_stats()
    assert mydev.memory_stats()["allocation.all.allocated"] == 0
    torch.empty(100, device="mydev")
    stats = mydev.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 1
    assert stats["requested_bytes.all.allocated"] == 400


def test_statistics_have_the_keys_of_other_accelerators() -> None:
    torch.empty(1, device="mydev")
    stats = mydev.memory_stats()
    groups = ["allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes"]
    expected = {
        f"{group}.{pool}.{metric}"
        for group in [*groups, "inactive_split_bytes", "requested_bytes"]
        for pool in ("all", "small_pool", "large_pool")
        for metric in ("current", "peak", "allocated", "freed")
    }
    expected |= {"num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"}
    assert expected <= stats.keys()
    nested = mydev.memory_stats_as_nested_dict()
    assert nested["segment"]["large_pool"]["peak"] == stats["segment.large_pool.peak"]


@pytest.mark.parametrize("name", ["memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"])
def test_torch_accelerator_gives_the_same_figures(name: str) -> None:
    kept = torch.ones(3 * MiB, dtype=torch.uint8, device="mydev")
    assert getattr(torch.accelerator, name)() == getattr(mydev, name)(kept.device)


def test_torch_accelerator_gives_the_same_statistics_but_for_private_pools() -> None:
    kept = torch.ones(3 * MiB, dtype=torch.uint8, device="mydev")
    stats = mydev.memory_stats(kept.device)
    private = {key for key in stats if key.startswith("reserved_bytes_by_private_pools.")}
    assert torch.accelerator.memory_stats() == {key: stats[key] for key in stats.keys() - private}


@pytest.mark.parametrize("name", ["reset_peak_memory_stats", "reset_accumulated_memory_stats", "empty_cache"])
def test_torch_accelerator_resets_and_releases(name: str) -> None:
    torch.empty(3 * MiB, dtype=torch.uint8, device="mydev")
    getattr(torch.accelerator, name)()
    stats = mydev.memory_stats()
    seen = {
        "reset_peak_memory_stats": stats["allocated_bytes.all.peak"] - stats["allocated_bytes.all.current"],
        "reset_accumulated_memory_stats": stats["allocated_bytes.all.allocated"],
        "empty_cache": stats["reserved_bytes.large_pool.current"],
    }
    assert seen[name] == 0


def test_memory_info_counts_what_is_reserved() -> None:
    free, total = mydev.mem_get_info()
    kept = torch.empty(64 * MiB, dtype=torch.uint8, device="mydev")
    assert mydev.mem_get_info(kept.device) == (free - 64 * MiB, total)
    assert torch.accelerator.get_memory_info() == (free - 64 * MiB, total)
    assert total == mydev.get_device_properties().total_memory


def test_figures_before_the_first_use_are_zero_and_load_no_driver(run_script: Script) -> None:
    code = """
result = [mydev.memory_allocated(), mydev.max_memory_reserved(), mydev.memory_stats(), mydev.memory_snapshot()]
mydev.empty_cache()
mydev.reset_peak_memory_stats()
result.append(mydev.is_initialized())
"""
    assert run_script(code) == [0, 0, {}, [], False]


@pytest.mark.devices(2)
def test_devices_are_counted_apart() -> None:
    before = mydev.memory_allocated(0)
    kept = torch.empty(2 * MiB, dtype=torch.uint8, device="mydev:1")
    assert mydev.memory_allocated(0) == before
    assert mydev.memory_allocated(kept.device) == mydev.memory_allocated("mydev:1") == 2 * MiB


def test_summary_shows_the_figures() -> None:
    kept = torch.empty(48 * MiB, dtype=torch.uint8, device="mydev")
    summary = mydev.memory_summary(kept.device)
    assert "48 MiB" in summary
    assert "from large pool" in summary
    assert "from large pool" not in mydev.memory_summary(abbreviated=True)


def test_snapshot_covers_all_reserved_memory() -> None:
    kept = [torch.empty(size, dtype=torch.uint8, device="mydev") for size in (100, 5000, 3 * MiB, 30 * MiB)]
    segments = [segment for segment in mydev.memory_snapshot() if segment["device"] == mydev.current_device()]
    assert sum(segment["total_size"] for segment in segments) == mydev.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == mydev.memory_allocated()
    assert all(sum(b["size"] for b in segment["blocks"]) == segment["total_size"] for segment in segments)
    active = {b["address"]: b for segment in segments for b in segment["blocks"] if b["state"] == "active_allocated"}
    assert [active[tensor.data_ptr()]["requested_size"] for tensor in kept] == [100, 5000, 3 * MiB, 30 * MiB]


# --- out of memory ----------------------------------------------------------------------------------------------------


def test_out_of_memory_names_the_figures(limit: int) -> None:
    held = torch.empty(100 * MiB, dtype=torch.uint8, device="mydev")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(1 << 30, dtype=torch.uint8, device="mydev")
    message = str(caught.value)
    assert "tried to allocate 1.00 GiB" in message
    assert str(held.device) in message
    assert "100.00 MiB allocated" in message
    assert f"{mydev.memory_reserved() / MiB:.2f} MiB reserved" in message  # some of it by tensors of other tests
    assert f"at most {limit / MiB:.2f} MiB" in message
    assert mydev.OutOfMemoryError is torch.OutOfMemoryError


def test_process_stays_usable_after_out_of_memory(limit: int) -> None:
    before = mydev.memory_allocated()
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(1 << 30, dtype=torch.uint8, device="mydev")
    assert mydev.memory_allocated() == before
    assert mydev.memory_stats()["num_ooms"] >= 3
    assert (torch.ones(1000, device="mydev") + 1).sum().item() == 2000


def test_out_of_memory_inside_an_operator_leaves_no_trace(limit: int) -> None:
    wide = torch.ones(40 * MiB, dtype=torch.uint8, device="mydev")
    before = mydev.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError):
        wide.to(torch.float64)
    assert mydev.memory_allocated() == before


def test_cached_memory_is_released_before_giving_up(limit: int) -> None:
    for size in (150, 200, 250):
        torch.empty(size * MiB, dtype=torch.uint8, device="mydev")
    assert mydev.memory_reserved() <= limit


def test_real_memory_limit_of_the_driver(run_script: Script) -> None:
    code = """
held = torch.ones(40 * MiB, dtype=torch.uint8, device="mydev")
try:
    torch.empty(40 * MiB, dtype=torch.uint8, device="mydev")
    result = ""
except torch.OutOfMemoryError as error:
    result = str(error)
"""
    message = run_script(code, MYDEV_DRIVER="host:memory=64M")
    assert "total of 64.00 MiB" in message
    assert "24.00 MiB is free" in message


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5, float("nan")])
def test_bad_fraction_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction"):
        mydev.set_per_process_memory_fraction(fraction)
    assert mydev.get_per_process_memory_fraction() == 1.0


def test_fraction_is_remembered() -> None:
    mydev.set_per_process_memory_fraction(0.5)
    assert mydev.get_per_process_memory_fraction() == 0.5
    mydev.set_per_process_memory_fraction(1.0)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_settings_come_from_pytorchs_variable(run_script: Script) -> None:
    code = "kept = torch.empty(36 * MiB, dtype=torch.uint8, device='mydev'); result = mydev.memory_allocated()"
    assert run_script(code, fresh=True, PYTORCH_ALLOC_CONF="roundup_power2_divisions:4") == 40 * MiB


def test_settings_can_change_later(run_script: Script) -> None:
    code = """
def size():
    kept = torch.empty(36 * MiB, dtype=torch.uint8, device="mydev")
    return mydev.memory_allocated()
result = [size()]
torch._C._accelerator_setAllocatorSettings("roundup_power2_divisions:4")
result.append(size())
"""
    assert run_script(code) == [36 * MiB, 40 * MiB]


def test_mistake_in_the_variable_is_reported_by_the_first_allocation(run_script: Script) -> None:
    code = """
import gc
try:
    torch.empty(1, device="mydev")
    result = ""
except Exception as error:
    result = str(error)
"""
    assert "nonsense" in run_script(code, fresh=True, PYTORCH_ALLOC_CONF="nonsense:1")


# --- raw memory -------------------------------------------------------------------------------------------------------


def test_raw_memory_is_counted_and_deleted_once() -> None:
    before = mydev.memory_allocated()
    address = mydev.caching_allocator_alloc(4096)
    assert address != 0
    assert mydev.memory_allocated() == before + 4096
    mydev.caching_allocator_delete(address)
    assert mydev.memory_allocated() == before
    with pytest.raises((ValueError, RuntimeError), match="deleted already"):
        mydev.caching_allocator_delete(address)


def test_raw_memory_of_a_stream() -> None:
    stream = mydev.Stream()
    address = mydev.caching_allocator_alloc(2000, stream=stream)
    segment = next(s for s in mydev.memory_snapshot() if address in {b["address"] for b in s["blocks"]})
    mydev.caching_allocator_delete(address)
    assert segment["stream"] == stream.stream_id


def test_raw_memory_of_zero_bytes() -> None:
    assert mydev.caching_allocator_alloc(0) == 0
    mydev.caching_allocator_delete(0)


# --- leaks ------------------------------------------------------------------------------------------------------------


def _train(steps: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to("mydev")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = torch.randn(16, 32).to("mydev"), torch.randint(4, (16,)).to("mydev")
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(lambda: torch.ones(1000).to("mydev").cpu(), id="copies"),
        pytest.param(lambda: torch.ones(1000, device="mydev").median(), id="fallback"),
        pytest.param(lambda: torch.ones(0, device="mydev") + 1, id="empty"),
        pytest.param(lambda: torch.ones(1000, device="mydev").untyped_storage().resize_(100_000), id="resize"),
        pytest.param(lambda: torch.ones(5 * MiB, device="mydev").add_(1)[::2].contiguous(), id="large"),
        pytest.param(lambda: _train(1), id="training"),
    ],
)
def test_repeating_an_action_leaks_nothing(action: Any) -> None:
    action()
    gc.collect()
    before = mydev.memory_stats()
    for _ in range(20):
        action()
    gc.collect()
    after = mydev.memory_stats()
    for key in ("allocation.all.current", "allocated_bytes.all.current", "reserved_bytes.all.current"):
        assert after[key] == before[key]


def test_threads_return_their_memory() -> None:
    before = mydev.memory_allocated()

    def work() -> None:
        for size in range(1, 3000, 7):
            torch.ones(size, device="mydev").add_(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mydev.memory_allocated() == before


@pytest.mark.slow
def test_steady_training_step_makes_no_driver_call_and_no_page_fault(run_script: Script) -> None:
    code = """
import resource
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                            torch.nn.Linear(512, 10)).to("mydev")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs, labels = torch.randn(512, 256).to("mydev"), torch.randint(10, (512,)).to("mydev")
def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
def counters():
    stats = mydev.memory_stats()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    return [stats["num_device_alloc"] + stats["num_device_free"], faults]
for _ in range(30):
    step()
before = counters()
for _ in range(100):
    step()
result = [after - earlier for earlier, after in zip(before, counters())]
"""
    driver_calls, page_faults = run_script(code, fresh=True, MYDEV_DRIVER="host")  # a fork's pages fault anew
    assert driver_calls == 0
    assert page_faults < 100, "less than one per step: only the interpreter's own are left"


# --- streams ----------------------------------------------------------------------------------------------------------


def test_recorded_stream_keeps_memory_until_it_has_passed() -> None:
    source = torch.arange(MiB, dtype=torch.float32).to("mydev")
    stream = mydev.Stream()
    stream.wait_stream(mydev.current_stream())
    with mydev.stream(stream):
        doubled = source * 2
    source.record_stream(stream)
    doubled.record_stream(mydev.current_stream())
    del source
    torch.zeros(MiB, device="mydev")  # would overwrite the source if it were reused too early
    mydev.current_stream().wait_stream(stream)
    torch.testing.assert_close(doubled.cpu(), torch.arange(MiB, dtype=torch.float32) * 2)


def test_memory_of_a_stream_is_not_given_to_another() -> None:
    stream = mydev.Stream()
    address = torch.empty(MiB, device="mydev").data_ptr()
    with mydev.stream(stream):
        assert torch.empty(MiB, device="mydev").data_ptr() != address


# --- pinned memory ----------------------------------------------------------------------------------------------------


def test_pinned_memory_is_recognised() -> None:
    pageable = torch.ones(1000)
    pinned = pageable.pin_memory()
    assert pinned.is_pinned()
    assert pinned[10:].is_pinned()
    assert not pageable.is_pinned()
    assert pinned.device.type == "cpu"
    torch.testing.assert_close(pinned, pageable)
    assert torch.empty(10, pin_memory=True).is_pinned()


def test_pinned_memory_is_cached() -> None:
    first = torch.empty(3 * MiB, dtype=torch.uint8, pin_memory=True)
    address = first.data_ptr()
    del first
    allocations = mydev.host_memory_stats()["num_host_alloc"]
    second = torch.empty(3 * MiB, dtype=torch.uint8, pin_memory=True)
    assert second.data_ptr() == address
    assert mydev.host_memory_stats()["num_host_alloc"] == allocations


def test_pinned_cache_can_be_emptied() -> None:
    torch.empty(3 * MiB, dtype=torch.uint8, pin_memory=True)
    mydev.synchronize()
    torch.accelerator.empty_host_cache()
    assert mydev.host_memory_stats()["allocated_bytes.current"] == mydev.host_memory_stats()["active_bytes.current"]


def test_pinned_source_may_be_dropped_before_its_copy_has_run() -> None:
    results = []
    for value in range(20):
        source = torch.full((MiB,), value, dtype=torch.uint8).pin_memory()
        results.append(source.to("mydev", non_blocking=True))
        del source
    assert [int(result[::4097].float().mean().item()) for result in results] == list(range(20))


def test_copy_to_pinned_memory_is_there_after_synchronizing() -> None:
    source = torch.arange(MiB, dtype=torch.int32).to("mydev")
    target = torch.empty(MiB, dtype=torch.int32, pin_memory=True)
    target.copy_(source, non_blocking=True)
    mydev.synchronize()
    torch.testing.assert_close(target, torch.arange(MiB, dtype=torch.int32))


def test_data_loader_pins_batches() -> None:
    dataset = torch.utils.data.TensorDataset(torch.arange(12.0))
    batches = [batch for (batch,) in torch.utils.data.DataLoader(dataset, batch_size=4, pin_memory=True)]
    assert all(batch.is_pinned() for batch in batches)
    torch.testing.assert_close(torch.cat(batches), torch.arange(12.0))


# --- profiler ---------------------------------------------------------------------------------------------------------


def test_profiler_sees_allocations_and_frees() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        kept = torch.empty(8 * MiB, dtype=torch.uint8, device="mydev")
        del kept
    assert profile.profiler is not None
    sizes = [e.nbytes() for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    assert [size for size in sizes if abs(size) == 8 * MiB] == [8 * MiB, -8 * MiB]
