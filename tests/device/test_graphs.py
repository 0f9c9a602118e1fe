"""Graphs: what is captured runs at each replay, on the same memory, with the eager results; what cannot be captured
says so, and leaves everything as it was."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from support.graphs import capture

RunPython = Callable[..., subprocess.CompletedProcess[str]]


# --- replays ----------------------------------------------------------------------------------------------------------


def test_a_replay_computes_from_what_the_inputs_hold_now(device: torch.device) -> None:
    x = torch.zeros(5, device=device)
    graph, (y, z) = capture(lambda: (x * 2 + 1, torch.relu(x - 3)))
    for value in (1.0, 5.0, -2.0):
        x.fill_(value)
        graph.replay()
        assert y.cpu().eq(value * 2 + 1).all()
        assert z.cpu().eq(max(value - 3, 0)).all()


def test_nothing_runs_during_the_capture(device: torch.device) -> None:
    x = torch.zeros(3, device=device)
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        assert torch.mydev.is_current_stream_capturing()
        x.add_(1)
    assert not torch.mydev.is_current_stream_capturing()
    assert x.sum().item() == 0
    graph.replay()
    graph.replay()
    assert x.sum().item() == 6


def test_views_copies_and_fills_are_captured(device: torch.device) -> None:
    x = torch.arange(12.0, device=device).view(3, 4)
    y, z = torch.zeros(4, 3, device=device), torch.ones(3, 4, device=device)

    def work() -> Tensor:
        y.copy_(x.t())
        z.zero_()
        z[1].fill_(7)
        return torch.cat([x[:, 1:], z[:, ::2]], dim=1).to(torch.float64)

    graph, result = capture(work)
    x.mul_(3)
    graph.replay()
    expected = torch.arange(12.0).view(3, 4) * 3
    assert torch.equal(y.cpu(), expected.t())
    filled = torch.zeros(3, 4)
    filled[1] = 7
    assert torch.equal(result.cpu(), torch.cat([expected[:, 1:], filled[:, ::2]], dim=1).double())


def test_an_accelerators_graph_is_the_devices(device: torch.device) -> None:
    x = torch.zeros(4, device=device)
    graph = torch.accelerator.Graph()
    with torch.Stream(device), graph:
        x += 1
    for _ in range(3):
        graph.replay()
    torch.accelerator.synchronize()
    assert x.cpu().tolist() == [3] * 4


def test_graphs_share_a_pool(device: torch.device) -> None:
    pool = torch.mydev.graph_pool_handle()
    assert pool != torch.mydev.graph_pool_handle()
    x = torch.ones(1 << 16, device=device)
    first, y = capture(lambda: (x * 2).relu() + 1, pool=pool)
    second, z = capture(lambda: (y * 2).relu() + 1, pool=first.pool())
    assert first.pool() == second.pool() == pool
    for _ in range(2):
        first.replay()
        second.replay()
    assert y.cpu().eq(3).all()
    assert z.cpu().eq(7).all()


def test_memory_of_a_graph_is_its_own_until_it_is_gone(device: torch.device) -> None:
    x = torch.ones(1 << 18, device=device)
    graph, y = capture(lambda: (x + 1) * 2)
    torch.mydev.synchronize()
    torch.mydev.empty_cache()  # which gives back no memory of graphs
    others = [torch.full((1 << 18,), float(i), device=device) for i in range(8)]
    graph.replay()
    assert [other.mean().item() for other in others] == list(range(8))
    assert y.cpu().eq(4).all()
    reserved = torch.mydev.memory_reserved()
    del graph, y
    torch.mydev.synchronize()
    torch.mydev.empty_cache()
    assert torch.mydev.memory_reserved() < reserved


def test_a_graph_holds_the_memory_that_it_reads(device: torch.device) -> None:
    x = torch.full((1000,), 3.0, device=device)
    weight = torch.full((1000,), 2.0, device=device)
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        y = x * weight
    del weight
    others = [torch.zeros(1000, device=device) for _ in range(20)]
    graph.replay()
    assert y.cpu().eq(6).all()
    assert all(other.cpu().eq(0).all() for other in others)


def test_a_tensor_freed_during_the_capture_is_held(device: torch.device) -> None:
    graph = torch.mydev.MyDevGraph()
    x = torch.full((1000,), 3.0, device=device)
    with torch.mydev.graph(graph):
        y = x + 1
        del x
        with torch.mydev.stream(torch.mydev.default_stream()):
            others = [torch.zeros(1000, device=device) for _ in range(20)]
        z = y * 2
    graph.replay()
    assert z.cpu().eq(8).all()
    assert all(other.cpu().eq(0).all() for other in others)


def test_a_replay_allocates_nothing(device: torch.device) -> None:
    x = torch.ones(300, 300, device=device)
    graph, _ = capture(lambda: torch.softmax(x @ x, dim=-1).sum(0))
    graph.replay()
    torch.mydev.synchronize()
    before = torch.mydev.memory_stats()
    for _ in range(5):
        graph.replay()
    torch.mydev.synchronize()
    after = torch.mydev.memory_stats()
    for key in ("allocation.all.allocated", "num_device_alloc"):
        assert before[key] == after[key], key


# --- random numbers ---------------------------------------------------------------------------------------------------


def test_random_numbers_differ_at_each_replay_and_follow_the_seed(device: torch.device) -> None:
    def draw() -> tuple[Tensor, ...]:
        return (
            torch.rand(70, device=device),
            torch.randn(33, dtype=torch.float64, device=device),
            torch.empty(9, device=device).exponential_(),
            torch.randint(1000, (11,), device=device),
            torch.empty(40, device=device).bernoulli_(0.5),
            F.dropout(torch.ones(50, device=device), 0.3),
        )

    torch.mydev.manual_seed(5)
    graph, captured = capture(draw)
    torch.mydev.manual_seed(11)
    replays = []
    for _ in range(3):
        graph.replay()
        replays.append([values.clone() for values in captured])
    torch.mydev.manual_seed(11)
    for replay in replays:
        for got, expected in zip(replay, draw(), strict=True):
            assert torch.equal(got.cpu(), expected.cpu())
    assert not torch.equal(replays[0][0].cpu(), replays[1][0].cpu())


def test_attention_with_dropout_is_captured(device: torch.device) -> None:
    query, key, value = (torch.randn(2, 3, 9, 8, device=device, requires_grad=True) for _ in range(3))

    def work() -> tuple[Tensor, ...]:
        out = F.scaled_dot_product_attention(query, key, value, dropout_p=0.4)
        return (out.detach(), *torch.autograd.grad(out.square().sum(), (query, key, value)))

    graph, captured = capture(work)
    torch.mydev.manual_seed(3)
    graph.replay()
    graph.replay()
    torch.mydev.manual_seed(3)
    work()
    for got, expected in zip(captured, work(), strict=True):
        torch.testing.assert_close(got.cpu(), expected.cpu())


def test_another_generator_follows_when_it_is_registered(device: torch.device) -> None:
    generator = torch.Generator(device).manual_seed(1)
    graph = torch.mydev.MyDevGraph()
    graph.register_generator_state(generator)
    with torch.mydev.graph(graph):
        x = torch.rand(10, device=device, generator=generator)
    graph.replay()
    first = x.clone()
    graph.replay()
    again = torch.Generator(device).manual_seed(1)
    assert torch.equal(first.cpu(), torch.rand(10, device=device, generator=again).cpu())
    assert torch.equal(x.cpu(), torch.rand(10, device=device, generator=again).cpu())


# --- streams ----------------------------------------------------------------------------------------------------------


def test_side_streams_join_by_events(device: torch.device) -> None:
    x = torch.zeros(1000, device=device)
    side = torch.mydev.Stream()

    def work() -> Tensor:
        y = x + 1
        side.wait_stream(torch.mydev.current_stream())
        with torch.mydev.stream(side):
            assert torch.mydev.is_current_stream_capturing() or not capturing
            z = y * 2
        w = y * 3
        torch.mydev.current_stream().wait_stream(side)
        z.record_stream(torch.mydev.current_stream())
        return z + w

    capturing = False
    work()
    capturing = True
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        result = work()
    x.fill_(4)
    graph.replay()
    assert result.cpu().eq(25).all()


def test_a_stream_that_is_not_joined_is_an_error(device: torch.device) -> None:
    x = torch.zeros(10, device=device)
    captured, side = torch.mydev.Stream(), torch.mydev.Stream()  # of a pool, which may have lent the default one's
    message = f"stream {side.stream_id} joined the capture.*did not wait for its last 1"
    graph = torch.mydev.graph(torch.mydev.MyDevGraph(), stream=captured)
    with pytest.raises(RuntimeError, match=message), graph:
        side.wait_stream(captured)
        with torch.mydev.stream(side):
            x.add_(1)
    with torch.mydev.stream(side):
        x.add_(1)
    side.synchronize()
    assert x.sum().item() == 10


def test_a_replay_beside_a_capture_is_no_part_of_it(device: torch.device) -> None:
    """Its last run was on the stream that captures now: it waits for that run, and does not join the capture."""
    x = torch.zeros(10, device=device)
    graph, _ = capture(lambda: x.add_(1))
    torch.mydev.synchronize()
    before = x.sum().item()
    first, second = torch.mydev.Stream(), torch.mydev.Stream()
    with torch.mydev.stream(first):
        graph.replay()
    with torch.mydev.graph(torch.mydev.MyDevGraph(), stream=first):
        with torch.mydev.stream(second):
            graph.replay()
            assert not torch.mydev.is_current_stream_capturing()
        second.synchronize()
    assert x.sum().item() == before + 20


# --- what cannot be captured ------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "item": (lambda x: x.sum().item(), "copy to the host"),
    "cpu": (lambda x: x.cpu(), "copy to the host"),
    "from the host": (lambda x: x.copy_(torch.zeros(9)), "copy to the device"),
    "synchronize": (lambda x: torch.mydev.synchronize(), "waiting for the device"),
    "stream": (lambda x: torch.mydev.current_stream().synchronize(), "waiting for the stream"),
    "query": (lambda x: torch.mydev.current_stream().query(), "asking whether the stream is done"),
    "timing": (lambda x: torch.mydev.Event(enable_timing=True).record(), "an event made for timing"),
    "nonzero": (lambda x: x.nonzero(), "captured"),
    "CPU operator": (lambda x: torch.linalg.eigvals(x.view(3, 3)), "captured"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_captured_says_so_and_leaves_the_rest(device: torch.device, what: str) -> None:
    function, message = REFUSED[what]
    x = torch.ones(9, device=device)
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        y = x + 1
        with pytest.raises((RuntimeError, NotImplementedError), match=message):
            function(x)
        z = y * 2  # the capture goes on
    graph.replay()
    assert z.cpu().eq(4).all()


def test_the_error_names_the_operation_and_the_line(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    with (
        pytest.raises(
            RuntimeError, match=r"copy to the host \(.*test_graphs\.py:\d+ in .*\) cannot be captured: stream"
        ),
        torch.mydev.graph(torch.mydev.MyDevGraph()),
    ):
        x.sum().item()
    assert not torch.mydev.is_current_stream_capturing()
    assert (x + 1).sum().item() == 6


def test_a_failed_capture_can_be_repeated(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    graph = torch.mydev.MyDevGraph()
    with pytest.raises(KeyError), torch.mydev.graph(graph):
        x.add_(1)
        raise KeyError("own")
    with torch.mydev.graph(graph):
        x.add_(1)
    graph.replay()
    assert x.cpu().eq(2).all()


def test_captures_do_not_nest(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    outer = torch.mydev.MyDevGraph()
    with torch.mydev.graph(outer):
        x.add_(1)
        with pytest.raises(RuntimeError, match="is capturing another graph already"):
            torch.mydev.MyDevGraph().capture_begin()
        with pytest.raises(RuntimeError, match="being captured already"):
            outer.capture_begin()
    outer.replay()
    assert x.cpu().eq(2).all()


def test_calls_out_of_order_are_refused(device: torch.device) -> None:
    graph = torch.mydev.MyDevGraph()
    for call in (graph.replay, graph.capture_end, graph.instantiate, graph.pool):
        with pytest.raises(RuntimeError, match="captured|capture"):
            call()
    x = torch.ones(3, device=device)
    with torch.mydev.graph(graph):
        x.add_(1)
    with pytest.raises(RuntimeError, match="reset"):
        graph.capture_begin()
    with pytest.raises(ValueError, match="capture_error_mode is one of"):
        torch.mydev.MyDevGraph().capture_begin(capture_error_mode="loose")
    graph.reset()
    with torch.mydev.graph(graph):
        x.mul_(5)
    graph.replay()
    assert x.cpu().eq(5).all()


def test_other_threads_work_on_while_one_captures(device: torch.device) -> None:
    x, sums = torch.ones(100, device=device), []
    graph = torch.mydev.MyDevGraph()

    def work() -> None:
        y = torch.ones(100, device=device)
        for _ in range(10):
            y = y + 1
        sums.append(y.sum().item())

    with torch.mydev.graph(graph):
        x.add_(1)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        x.mul_(2)
    graph.replay()
    assert sums == [1100]
    assert x.cpu().eq(4).all()


def test_two_threads_capture_two_streams(device: torch.device) -> None:
    results: dict[int, float] = {}
    barrier = threading.Barrier(2)

    def work(number: int) -> None:
        x = torch.full((50,), float(number), device=device)
        graph = torch.mydev.MyDevGraph()
        torch.mydev.synchronize()
        with torch.mydev.stream(torch.mydev.Stream()):
            barrier.wait()
            graph.capture_begin()
            y = x * 2 + torch.rand(50, device=device) * 0
            barrier.wait()
            graph.capture_end()
        barrier.wait()
        graph.replay()
        results[number] = y.sum().item()

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {1: 100, 2: 200}


# --- seen from outside ------------------------------------------------------------------------------------------------


def test_a_graph_is_text_and_a_picture(device: torch.device, tmp_path: Path) -> None:
    x = torch.ones(3, device=device)
    graph = torch.mydev.MyDevGraph(keep_graph=True)
    with torch.mydev.graph(graph):
        torch.relu(x * 2)
    graph.debug_dump(str(tmp_path / "graph.txt"))
    text = (tmp_path / "graph.txt").read_text()
    assert "launch mydev.mul(" in text
    assert "launch mydev.relu(" in text
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert (tmp_path / "graph.dot").read_text().startswith('digraph "graph" {')
    quiet, _ = capture(lambda: x + 1)
    with pytest.raises(RuntimeError, match="enable_debug_mode"):
        quiet.debug_dump(str(tmp_path / "other.txt"))
    with pytest.raises(RuntimeError, match="cannot write to"):
        graph.debug_dump(str(tmp_path / "absent" / "graph.txt"))


@pytest.mark.any_driver
def test_a_step_that_fails_in_a_replay_names_itself(run_python: RunPython) -> None:
    program = """
import torch, torch_mydev
x = torch.ones(2000, device="mydev")  # steps over less are one launch
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    x.add_(1)
    sums = x.cumsum(0)
for attempt in range(4):
    try:
        graph.replay()
        torch.mydev.synchronize()
        print("fine", x[0].item())
    except Exception as error:
        print(type(error).__name__, str(error).replace("\\n", " "))
"""
    result = run_python(program, MYDEV_DRIVER="host:faults=1:launch@5")
    assert result.returncode == 0, result.stderr
    assert "step 1 of program 'graph' (launch mydev.cumsum)" in result.stdout
    assert result.stdout.count("fine") == 3


def test_reductions_of_nothing_are_captured() -> None:
    x = torch.empty(0, 6, device="mydev")
    graph, (total, columns, product) = capture(lambda: (x.sum() + 1, x.mean(0), x.prod()))
    for result in (total, columns, product):
        result.fill_(9)
    graph.replay()
    assert (total.item(), product.item()) == (1, 1)
    assert columns.isnan().all()
