"""Collectives in captured graphs: each replay does what the eager collective does, on every kind of driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from support import collective_cases as cases
from support.checkout import DRIVERS
from support.ranks import Ranks, device

mydev = torch.mydev

PAIRS = ["host", "host:async", "host:remote,async", str(DRIVERS / "discrete_driver.so")]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda driver: driver.rsplit("/", 1)[-1])
def pair(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    ranks = Ranks(2, MYDEV_DRIVER=request.param)
    yield ranks
    ranks.stop()


def captured(function: Callable[..., Any]) -> Callable[..., None]:
    """Captures each call, and replays it once."""

    def call(*arguments: Any, **options: Any) -> list[Any]:
        graph = torch.mydev.MyDevGraph()
        with torch.mydev.graph(graph):
            result = function(*arguments, **options)
            for work in result if isinstance(result, list) else ():
                work.wait()
        graph.replay()
        return []

    return call


def with_captured_collectives(rank: int, size: int, eager: cases.Case, **options: Any) -> None:
    names = {name for name in dir(dist) if name in NAMES}
    assert names == NAMES
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(dist, name, captured(getattr(dist, name)))
        eager(rank, size, **options)


NAMES = {
    *(
        "all_reduce",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_single",
        "broadcast",
        "all_gather",
        "gather",
        "scatter",
    ),
    *("all_gather_single", "all_to_all", "all_to_all_single", "send", "recv", "batch_isend_irecv"),
}
DTYPES = [torch.bfloat16, torch.bool, torch.complex64]


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, dtype) for op in ("SUM", "AVG", "PREMUL_SUM") for dtype in DTYPES if cases.is_defined(op, dtype)],
    ids=str,
)
@pytest.mark.parametrize("reduction", cases.REDUCTIONS)
def test_reductions(pair: Ranks, reduction: str, op: str, dtype: torch.dtype) -> None:
    cases.run(pair, with_captured_collectives, eager=cases.REDUCTIONS[reduction], op=op, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("movement", cases.MOVEMENTS)
def test_movements(pair: Ranks, movement: str, dtype: torch.dtype) -> None:
    cases.run(pair, with_captured_collectives, eager=cases.MOVEMENTS[movement], dtype=dtype)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (140_001,), (1_500_001,)], ids=str)
def test_shapes(pair: Ranks, shape: tuple[int, ...]) -> None:
    cases.run(pair, with_captured_collectives, eager=cases.all_reduce, op="SUM", dtype=torch.float32, shape=shape)


def a_step_of_many_collectives(rank: int, size: int) -> None:
    place, length = device(), 200_000
    source, destination = (rank - 1) % size, (rank + 1) % size
    x = torch.zeros(length, device=place)
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        doubled = x * 2
        work = dist.all_reduce(doubled, async_op=True)
        meanwhile = x + 1
        work.wait()
        own = doubled + meanwhile
        everyone = torch.empty(size, length, device=place)
        dist.all_gather_single(everyone, own)
        received = torch.empty_like(own)
        transfers = [dist.P2POp(dist.isend, own, destination), dist.P2POp(dist.irecv, received, source)]
        for transfer in dist.batch_isend_irecv(transfers):
            transfer.wait()
        dist.barrier()
        result = everyone.sum(0) + received
        strided = result.view(2, -1).t()
        dist.broadcast(strided, src=0)
        mean = functional.wait_tensor(functional.all_reduce(result, "avg", dist.group.WORLD))
    for replay in range(3):
        x.fill_(rank + replay)
        graph.replay()
        total = sum(2.0 * (r + replay) for r in range(size))
        owns = [total + r + replay + 1 for r in range(size)]
        expected = torch.full((length,), sum(owns) + owns[size - 1])
        cases.check(result, expected)
        cases.check(mean, expected)


def test_each_replay_runs_them_anew(group: Ranks) -> None:
    cases.run(group, a_step_of_many_collectives)


def test_each_replay_runs_them_anew_on(pair: Ranks) -> None:
    cases.run(pair, a_step_of_many_collectives)


def coalesced(rank: int, size: int) -> None:
    tensors = [torch.full((5,), float(rank + i), device=device()) for i in range(3)]
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        dist.all_reduce_coalesced(tensors)
        with dist._coalescing_manager(device=device()):
            for tensor in tensors:
                dist.all_reduce(tensor)
    graph.replay()
    for i, tensor in enumerate(tensors):
        cases.check(tensor, torch.full((5,), float(size * sum(r + i for r in range(size)))))


def test_coalesced_collectives(pair: Ranks) -> None:
    cases.run(pair, coalesced)


# --- training ---------------------------------------------------------------------------------------------------------


def train(model: nn.Module, batches: list[torch.Tensor], use_graph: bool) -> list[torch.Tensor]:
    side = torch.mydev.Stream()  # on which DDP is made, warmed up and captured
    torch.mydev.set_stream(side)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
    inputs = torch.zeros_like(batches[0])

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = parallel(inputs).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(11):  # as PyTorch's documentation says of DDP
        step()
    graph = torch.mydev.MyDevGraph()
    if use_graph:
        with torch.mydev.graph(graph, stream=side):
            step()
    for batch in batches:
        inputs.copy_(batch)
        if use_graph:
            graph.replay()
        else:
            step()
    torch.mydev.set_stream(torch.mydev.default_stream())
    side.synchronize()
    return [parameter.detach().cpu() for parameter in parallel.parameters()]


def ddp_training(rank: int, size: int) -> None:
    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 3)).to(device())

    generator = torch.Generator().manual_seed(rank)
    batches = [torch.randn(8, 20, generator=generator).to(device()) for _ in range(4)]
    eager, replayed = train(model(), batches, use_graph=False), train(model(), batches, use_graph=True)
    torch.testing.assert_close(replayed, eager)


def test_ddp_is_trained_by_replays(pair: Ranks) -> None:
    cases.run(pair, ddp_training)


# --- refusals ---------------------------------------------------------------------------------------------------------


def refusals(rank: int, size: int) -> None:
    x = torch.zeros(4, device=device())
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (2,)).to(device())
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        work = dist.all_reduce(x, async_op=True)
        with pytest.raises(RuntimeError, match="asking whether all_reduce is done .*cannot be captured"):
            work.is_completed()
        with pytest.raises(RuntimeError, match="a receive from any rank, .* cannot be captured"):
            dist.recv(x)
        with pytest.raises(RuntimeError, match="the sum of sparse tensors, .* cannot be captured"):
            dist.all_reduce(sparse)
    with pytest.raises(RuntimeError, match="waiting for all_reduce, which a graph has captured: it has not run"):
        work.wait()


def test_what_cannot_be_captured_is_reported(pair: Ranks) -> None:
    cases.run(pair, refusals)


def group_is_gone(rank: int, size: int) -> None:
    group = dist.new_group(list(range(size)))
    x = torch.zeros(4, device=device())
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        dist.all_reduce(x, group=group)
    graph.replay()
    dist.destroy_process_group(group)
    del group
    with pytest.raises(RuntimeError, match="all_reduce: the process group of this graph is gone"):
        graph.replay()


def test_a_group_that_is_gone_is_reported(pair: Ranks) -> None:
    cases.run(pair, group_is_gone)
