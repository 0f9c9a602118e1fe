"""Host functions: a stream calls them in its order, once, or at each replay of a graph that recorded them."""

from __future__ import annotations

import gc
import subprocess
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

mydev = torch.mydev
RunPython = Callable[..., subprocess.CompletedProcess[str]]


def relaxed(work: Callable[[], Any], **options: Any) -> torch.mydev.MyDevGraph:
    """The graph of a function whose host functions are recorded."""
    graph = mydev.MyDevGraph()
    with mydev.graph(graph, capture_error_mode="relaxed", **options):
        work()
    return graph


# --- on a stream ------------------------------------------------------------------------------------------------------


def test_a_stream_calls_it_in_its_order() -> None:
    calls: list[int] = []
    x = torch.ones(1000, device="mydev")
    stream = mydev.current_stream()
    for number in range(5):
        x.add_(1)
        stream.launch_host_func(calls.append, number)
    mydev.synchronize()
    assert calls == list(range(5))
    assert x.sum().item() == 6000


def test_work_that_follows_waits_for_it() -> None:
    stream, started, order = mydev.Stream(), threading.Event(), []

    def slow() -> None:
        started.wait()
        order.append("first")

    if mydev.get_device_properties().asynchronous:
        stream.launch_host_func(slow)
        stream.launch_host_func(order.append, "second")
        assert order == []
        started.set()
    else:
        started.set()
        stream.launch_host_func(slow)
        stream.launch_host_func(order.append, "second")
    stream.synchronize()
    assert order == ["first", "second"]


def test_what_it_raises_is_the_streams_error() -> None:
    def read_sensor() -> None:
        raise ValueError("no signal")

    stream = mydev.Stream()
    stream.launch_host_func(read_sensor, name="sensor 7")
    message = r"the host call sensor 7 failed: ValueError: no signal .*submitted at .*test_host_functions\.py:\d+ in"
    with pytest.raises(RuntimeError, match=message):
        stream.synchronize()
    stream.synchronize()  # it was raised once


def test_it_is_named_by_the_function() -> None:
    stream = mydev.Stream()
    stream.launch_host_func(int, "x")
    with pytest.raises(RuntimeError, match="the host call int failed: ValueError: invalid literal"):
        stream.synchronize()
    with pytest.raises(TypeError, match="must be callable, not 3"):
        stream.launch_host_func(3)


@pytest.mark.parametrize(
    ("wait", "what"),
    [
        (lambda stream: stream.synchronize(), "waiting for the stream"),
        (lambda stream: mydev.synchronize(), "waiting for the device"),
        (lambda stream: stream.record_event().synchronize(), "waiting for an event"),
    ],
)
def test_it_may_not_wait_for_the_device(wait: Callable[[Any], Any], what: str) -> None:
    stream = mydev.Stream()
    stream.launch_host_func(wait, stream)
    with pytest.raises(RuntimeError, match=f"{what}.* inside of a host function is not allowed"):
        stream.synchronize()


def test_it_is_released_after_the_call() -> None:
    class Function:
        def __call__(self) -> None:
            pass

    function = Function()
    gone = weakref.ref(function)
    mydev.current_stream().launch_host_func(function)
    del function
    mydev.synchronize()
    gc.collect()
    assert gone() is None


def test_what_is_pending_at_exit_is_called(run_python: RunPython) -> None:
    program = """
import sys, time, torch, torch_mydev
def slow():
    time.sleep(0.2)
    print("called")
    sys.stdout.flush()
torch.mydev.current_stream().launch_host_func(slow)
"""
    result = run_python(program)
    assert (result.returncode, result.stdout.split()) == (0, ["called"]), result.stderr


# --- in a graph -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["default", "global", "thread_local"])
def test_a_strict_capture_refuses_it(mode: str) -> None:
    x, calls = torch.ones(3, device="mydev"), []
    graph = mydev.MyDevGraph()
    with mydev.graph(graph, capture_error_mode=mode):
        x.add_(1)
        message = r'host function tick, in a capture_error_mode other than "relaxed", .*cannot be captured: stream'
        with pytest.raises(RuntimeError, match=message):
            mydev.current_stream().launch_host_func(calls.append, 1, name="tick")
        x.mul_(2)  # the capture goes on
    graph.replay()
    mydev.synchronize()
    assert calls == []
    assert x.sum().item() == 12


def test_a_relaxed_capture_records_it_for_each_replay() -> None:
    x, calls = torch.zeros(3, device="mydev"), []

    def work() -> None:
        x.add_(1)
        mydev.current_stream().launch_host_func(calls.append, "between")
        x.mul_(2)
        mydev.current_stream().launch_host_func(calls.append, "end")

    graph = relaxed(work)
    assert calls == []
    for replay in range(1, 4):
        graph.replay()
        mydev.synchronize()
        assert calls == ["between", "end"] * replay
    assert x.tolist() == [14.0] * 3


def test_the_example_of_the_documentation() -> None:
    x, reached = torch.zeros(3, device="mydev"), []
    # [docs: relaxed]
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph, capture_error_mode="relaxed"):
        x.add_(1)
        torch.mydev.current_stream().launch_host_func(reached.append, "half")
        x.mul_(2)
    # [docs: end]
    graph.replay()
    graph.replay()
    mydev.synchronize()
    assert reached == ["half", "half"]
    assert x.tolist() == [6.0] * 3


def test_a_relaxed_capture_still_refuses_what_reads_results() -> None:
    x = torch.ones(9, device="mydev")
    graph = mydev.MyDevGraph()
    with mydev.graph(graph, capture_error_mode="relaxed"):
        for read in (lambda: x.sum().item(), lambda: torch.linalg.eigvals(x.view(3, 3)), mydev.synchronize):
            with pytest.raises((RuntimeError, NotImplementedError), match="captured"):
                read()


def test_it_separates_what_would_be_fused() -> None:
    x = torch.ones(1000, device="mydev")

    def work() -> None:
        x.add_(1).mul_(2)
        mydev.current_stream().launch_host_func(int)
        x.add_(1).mul_(2)

    graph = mydev.MyDevGraph(keep_graph=True)
    with mydev.graph(graph, capture_error_mode="relaxed"):
        work()
    graph.replay()
    assert x.eq(10).all().item()


def test_it_is_recorded_on_streams_that_join() -> None:
    calls: list[str] = []
    side = mydev.Stream()

    def work() -> None:
        main = mydev.current_stream()
        main.launch_host_func(calls.append, "first")
        side.wait_stream(main)
        side.launch_host_func(calls.append, "second")
        main.wait_stream(side)
        main.launch_host_func(calls.append, "third")

    graph = relaxed(work)
    graph.replay()
    mydev.synchronize()
    assert calls == ["first", "second", "third"]


def test_an_accelerators_graph_records_it_when_it_is_relaxed() -> None:
    calls: list[int] = []
    graph = torch.accelerator.Graph(capture_error_mode="relaxed")
    with mydev.stream(mydev.Stream()), graph:
        mydev.current_stream().launch_host_func(calls.append, 1)
    graph.replay()
    torch.accelerator.synchronize()
    assert calls == [1]


def test_an_error_at_a_replay_names_the_step() -> None:
    readings = iter([1, 2])

    def read_sensor() -> None:
        next(readings)

    x = torch.zeros(3, device="mydev")

    def work() -> None:
        x.add_(1)
        mydev.current_stream().launch_host_func(read_sensor, name="sensor 7")

    graph = relaxed(work)
    for _ in range(2):
        graph.replay()
    mydev.synchronize()
    with pytest.raises(RuntimeError, match=r"step 1 of program 'graph' \(host sensor 7\)") as caught:
        graph.replay()
        mydev.synchronize()
    assert "StopIteration" in str(caught.value)
    assert x.tolist() == [3.0] * 3


def test_a_graph_keeps_the_function_until_it_is_gone() -> None:
    class Function:
        def __call__(self) -> None:
            pass

    function = Function()
    gone = weakref.ref(function)
    functions = [function]
    graph = relaxed(lambda: mydev.current_stream().launch_host_func(functions.pop()))
    del function
    graph.replay()
    assert gone() is not None
    del graph  # which waits for the replay, whose step needs the interpreter
    gc.collect()
    assert gone() is None


def test_a_graph_shows_its_host_functions(tmp_path: Any) -> None:
    graph = mydev.MyDevGraph(keep_graph=True)
    with mydev.graph(graph, capture_error_mode="relaxed"):
        mydev.current_stream().launch_host_func(int, name="tick")
    graph.debug_dump(str(tmp_path / "graph.txt"))
    assert 'host "tick"()' in (tmp_path / "graph.txt").read_text()
