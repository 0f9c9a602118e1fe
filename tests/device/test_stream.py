"""Streams and events from Python: making, choosing, ordering, timing; torch.mydev and torch.accelerator agree."""

from __future__ import annotations

import threading

import pytest
import torch

import torch_mydev  # noqa: F401

mydev = torch.mydev


def work(device: torch.device | str = "mydev") -> torch.Tensor:
    """Something that takes a moment on the current stream; its sum is 64 ** 2 * 64."""
    ones = torch.ones(64, 64, device=device)
    return ones @ ones


WORK_SUM = 64.0**3


# --- streams ----------------------------------------------------------------------------------------------------------


def test_default_stream_is_current_at_first() -> None:
    assert mydev.current_stream() == mydev.default_stream()
    assert torch.accelerator.current_stream() == mydev.default_stream()


def test_stream_is_a_torch_stream_on_the_current_device() -> None:
    stream = mydev.Stream()
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("mydev:0")
    assert stream != mydev.default_stream()


def test_streams_of_the_pool_differ() -> None:
    assert mydev.Stream() != mydev.Stream()


@pytest.mark.parametrize("make", [mydev.Stream, lambda: torch.Stream("mydev"), lambda: torch.Stream(device="mydev:0")])
def test_new_stream_is_idle(make: type) -> None:
    stream = make()
    assert stream.query()
    stream.synchronize()


@pytest.mark.parametrize("spelling", [None, 0, "mydev", "mydev:0", torch.device("mydev:0")], ids=str)
def test_stream_takes_every_spelling_of_a_device(spelling: object) -> None:
    assert mydev.Stream(spelling).device_index == 0
    assert mydev.current_stream(spelling) == mydev.default_stream(spelling)


@pytest.mark.parametrize(("priority", "expected"), [(0, 0), (-1, -1), (-99, -1), (99, 0)])
def test_priority_is_mapped_into_the_range(priority: int, expected: int) -> None:
    least, most = mydev.Stream.priority_range()
    assert (least, most) == (0, -1)
    assert mydev.Stream(priority=priority).priority == expected


def test_equal_streams_have_equal_hashes() -> None:
    stream = mydev.Stream()
    same = mydev.Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)
    assert stream == same
    assert hash(stream) == hash(same)


def test_repr_names_device_and_id() -> None:
    stream = mydev.Stream()
    assert repr(stream) == f"<torch.mydev.Stream device=mydev:0 id={stream.stream_id}>"


def test_native_handle_is_the_drivers() -> None:
    assert mydev.Stream().native_handle != mydev.Stream().native_handle


@pytest.mark.parametrize("wrong", [9999, -3])
def test_stream_id_that_does_not_exist_is_refused(wrong: int) -> None:
    stream = mydev.Stream(stream_id=wrong, device_index=0, device_type=mydev.Stream().device_type)
    with pytest.raises(RuntimeError, match="stream"):
        mydev.set_stream(stream)
    assert mydev.current_stream() == mydev.default_stream()


# --- the current stream -----------------------------------------------------------------------------------------------

CONTEXTS = [
    pytest.param(mydev.stream, id="torch.mydev.stream"),
    pytest.param(mydev.StreamContext, id="StreamContext"),
    pytest.param(lambda stream: stream, id="the stream itself"),
]


@pytest.mark.parametrize("context", CONTEXTS)
def test_context_makes_the_stream_current_and_restores(context: type) -> None:
    stream, inner = mydev.Stream(), mydev.Stream()
    with context(stream):
        assert mydev.current_stream() == stream
        with context(inner):
            assert mydev.current_stream() == inner
        assert mydev.current_stream() == stream
        assert work().sum().item() == WORK_SUM
    assert mydev.current_stream() == mydev.default_stream()


@pytest.mark.parametrize("context", CONTEXTS)
def test_context_restores_after_an_exception(context: type) -> None:
    with pytest.raises(KeyError), context(mydev.Stream()):
        raise KeyError
    assert mydev.current_stream() == mydev.default_stream()


def test_context_without_a_stream_changes_nothing() -> None:
    with mydev.stream(None):
        assert mydev.current_stream() == mydev.default_stream()


@pytest.mark.parametrize("set_stream", [mydev.set_stream, torch.accelerator.set_stream], ids=["mydev", "accelerator"])
def test_set_stream(set_stream: type) -> None:
    stream = mydev.Stream()
    set_stream(stream)
    try:
        assert mydev.current_stream() == stream
        assert torch.accelerator.current_stream() == stream
    finally:
        set_stream(mydev.default_stream())


@pytest.mark.devices(2)
@pytest.mark.parametrize("context", CONTEXTS)
def test_stream_of_another_device_makes_that_device_current(context: type) -> None:
    stream = mydev.Stream("mydev:1")
    with context(stream):
        assert mydev.current_device() == 1
        assert mydev.current_stream() == stream
        assert mydev.current_stream(0) == mydev.default_stream(0)
    assert mydev.current_device() == 0
    assert mydev.current_stream(1) == mydev.default_stream(1)


def test_current_stream_belongs_to_the_thread() -> None:
    seen = []
    with mydev.stream(mydev.Stream()):
        thread = threading.Thread(target=lambda: seen.append(mydev.current_stream()))
        thread.start()
        thread.join()
    assert seen == [mydev.default_stream()]


def test_stream_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a mydev stream"):
        mydev.set_stream(torch.Stream("cpu"))


def test_no_stream_is_being_captured() -> None:
    assert not mydev.is_current_stream_capturing()


# --- order ------------------------------------------------------------------------------------------------------------


def test_wait_stream_orders_work_of_two_streams() -> None:
    producer, consumer = mydev.Stream(), mydev.Stream()
    values = torch.zeros(100_000, device="mydev")
    producer.wait_stream(mydev.current_stream())
    for _ in range(20):
        with mydev.stream(producer):
            values.add_(1)
        consumer.wait_stream(producer)
        with mydev.stream(consumer):
            values.mul_(2)
        producer.wait_stream(consumer)
    producer.synchronize()
    consumer.synchronize()
    expected = 0.0
    for _ in range(20):
        expected = (expected + 1) * 2
    assert values.cpu().eq(expected).all()


@pytest.mark.parametrize("method", ["stream.wait_event", "event.wait"])
def test_event_orders_work_of_two_streams(method: str) -> None:
    producer, consumer = mydev.Stream(), mydev.Stream()
    mydev.synchronize()
    with mydev.stream(producer):
        result = work()
        event = producer.record_event()
    if method == "event.wait":
        event.wait(consumer)
    else:
        consumer.wait_event(event)
    with mydev.stream(consumer):
        assert (result * 2).sum().item() == 2 * WORK_SUM


def test_several_streams_wait_for_one_event() -> None:
    event = mydev.Event()
    result = work()
    event.record()
    streams = [mydev.Stream() for _ in range(4)]
    sums = []
    for stream in streams:
        stream.wait_event(event)
        with mydev.stream(stream):
            sums.append(result.sum())
    mydev.synchronize()
    assert [total.item() for total in sums] == [WORK_SUM] * 4


def test_synchronized_stream_is_idle_and_its_work_done() -> None:
    stream = mydev.Stream()
    with mydev.stream(stream):
        result = work()
    stream.synchronize()
    assert stream.query()
    assert result.sum().item() == WORK_SUM


def test_device_synchronization_waits_for_every_stream() -> None:
    streams = [mydev.Stream() for _ in range(4)]
    for stream in streams:
        with mydev.stream(stream):
            work()
    mydev.synchronize()
    assert all(stream.query() for stream in streams)


def test_freed_memory_is_not_reused_while_another_stream_reads_it() -> None:
    side = mydev.Stream()
    values = torch.ones(1 << 16, device="mydev")
    side.wait_stream(mydev.current_stream())
    with mydev.stream(side):
        total = torch.zeros((), device="mydev")
        for _ in range(20):
            total = total + values.sum()
    values.record_stream(side)
    del values
    torch.full((1 << 16,), 7.0, device="mydev")
    side.synchronize()
    assert total.item() == 20 * (1 << 16)


@pytest.mark.devices(2)
def test_streams_of_two_devices_wait_for_each_other() -> None:
    here, there = mydev.Stream("mydev:0"), mydev.Stream("mydev:1")
    with mydev.stream(here):
        result = work("mydev:0")
    there.wait_stream(here)
    with mydev.stream(there):
        moved = result.to("mydev:1")
    mydev.synchronize(0)
    mydev.synchronize(1)
    assert moved.sum().item() == WORK_SUM


# --- events -----------------------------------------------------------------------------------------------------------

EVENTS = [
    pytest.param(mydev.Event, id="torch.mydev.Event"),
    pytest.param(lambda **options: torch.Event("mydev", **options), id="torch.Event"),
]


@pytest.mark.parametrize("make", EVENTS)
def test_event_that_was_never_recorded_is_done(make: type) -> None:
    event = make()
    assert isinstance(event, torch.Event)
    assert event.query()
    event.synchronize()
    event.wait()


@pytest.mark.parametrize("make", EVENTS)
def test_recorded_event_is_done_after_synchronize(make: type) -> None:
    event = make()
    work()
    event.record()
    event.synchronize()
    assert event.query()


@pytest.mark.parametrize("make", EVENTS)
def test_event_is_recorded_on_the_given_stream(make: type) -> None:
    stream, event = mydev.Stream(), make()
    with mydev.stream(stream):
        work()
    event.record(stream)
    stream.synchronize()
    assert event.query()


def test_event_can_be_recorded_again() -> None:
    event = mydev.Event()
    for _ in range(3):
        work()
        event.record()
    event.synchronize()
    assert event.query()


@pytest.mark.parametrize("make_end", EVENTS)
def test_elapsed_time_is_in_milliseconds_and_not_negative(make_end: type) -> None:
    start, end = mydev.Event(enable_timing=True), make_end(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 60_000


def test_sleep_keeps_its_stream_busy_for_so_many_nanoseconds() -> None:
    begin, end = (mydev.Event(enable_timing=True) for _ in range(2))
    stream = mydev.Stream()
    with mydev.stream(stream):
        begin.record()
        mydev._sleep(20_000_000)
        end.record()
    end.synchronize()
    assert begin.elapsed_time(end) >= 20
    with pytest.raises(ValueError, match="must not be negative, but is -1"):
        mydev._sleep(-1)


def test_elapsed_time_needs_timing() -> None:
    start, end = mydev.Event(), mydev.Event()
    start.record()
    end.record()
    mydev.synchronize()
    with pytest.raises(RuntimeError, match="timing"):
        start.elapsed_time(end)


def test_elapsed_time_needs_records() -> None:
    start, end = mydev.Event(enable_timing=True), mydev.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)


@pytest.mark.devices(2)
def test_event_cannot_move_to_another_device() -> None:
    event = mydev.Event()
    event.record(mydev.default_stream(0))
    with pytest.raises(RuntimeError, match="mydev:0"):
        event.record(mydev.default_stream(1))


@pytest.mark.parametrize("blocking", [False, True])
def test_blocking_events_wait(blocking: bool) -> None:
    event = mydev.Event(blocking=blocking)
    result = work()
    event.record()
    event.synchronize()
    assert result.sum().item() == WORK_SUM


def test_interleaved_records_on_two_streams() -> None:
    one, other = mydev.Stream(), mydev.Stream()
    events = [stream.record_event() for stream in (one, other, one, other)]
    mydev.synchronize()
    assert all(event.query() for event in events)


def test_event_of_a_dead_stream_object_stays_valid() -> None:
    event = mydev.Stream().record_event()
    event.synchronize()
    assert event.query()


def test_repr_of_an_event_names_its_kind() -> None:
    assert repr(mydev.Event()).startswith("<torch.mydev.Event ")


# --- streams of others ------------------------------------------------------------------------------------------------


@pytest.fixture
def foreign() -> torch.Stream:
    """An external stream over a handle that belongs to one of our own streams, which stands for its owner."""
    return mydev.ExternalStream(mydev.Stream().native_handle)


def test_external_stream_runs_work(foreign: torch.Stream) -> None:
    with mydev.stream(foreign):
        result = work()
    foreign.synchronize()
    assert result.sum().item() == WORK_SUM
    foreign.release()


def test_external_stream_is_made_by_the_function_too() -> None:
    stream = mydev.get_stream_from_external(mydev.Stream().native_handle, "mydev:0")
    assert isinstance(stream, mydev.ExternalStream)
    assert stream.query()
    stream.release()


def test_released_stream_is_refused_and_the_process_stays_usable(foreign: torch.Stream) -> None:
    foreign.release()
    with pytest.raises(RuntimeError, match="stream"):
        mydev.set_stream(foreign)
    with pytest.raises(RuntimeError, match="stream"):
        foreign.synchronize()
    assert work().sum().item() == WORK_SUM
