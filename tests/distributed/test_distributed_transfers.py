"""Transfers between two ranks, and of a rank to itself: send, recv and their asynchronous forms."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from support import collective_cases as cases
from support.ranks import TIMEOUT, Ranks, device


def exchange(rank: int, size: int, batched: bool) -> None:
    place = device()
    right, left = (rank + 1) % size, (rank - 1) % size
    sent = torch.full((1000,), float(rank), device=place)
    received = torch.empty(1000, device=place)
    if batched:
        works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, received, left), dist.P2POp(dist.isend, sent, right)])
    else:
        works = [dist.irecv(received, left), dist.isend(sent, right)]
    for work in works:
        work.wait()
    cases.check(received, torch.full((1000,), float(left)))


@pytest.mark.parametrize("batched", [False, True])
def test_neighbours_exchange(group: Ranks, batched: bool) -> None:
    cases.run(group, exchange, batched=batched)


def exchange_with_itself(rank: int, size: int, receive_first: bool) -> None:
    place = device()
    sent = torch.arange(6.0, device=place).add(rank).view(2, 3).t()
    first, second = torch.zeros(3, 2, device=place), torch.zeros(3, 2, device=place)
    sends = [dist.P2POp(dist.isend, sent, rank), dist.P2POp(dist.isend, sent * 2, rank)]
    receives = [dist.P2POp(dist.irecv, first, rank), dist.P2POp(dist.irecv, second, rank)]
    for work in dist.batch_isend_irecv(receives + sends if receive_first else sends + receives):
        work.wait()
    cases.check(first, torch.arange(6.0).add(rank).view(2, 3).t())
    cases.check(second, torch.arange(6.0).add(rank).mul(2).view(2, 3).t())


@pytest.mark.parametrize("receive_first", [False, True])
def test_rank_exchanges_with_itself(two: Ranks, receive_first: bool) -> None:
    cases.run(two, exchange_with_itself, receive_first=receive_first)


def exchange_with_itself_wrongly(rank: int, size: int) -> None:
    place = device()
    lonely = dist.isend(torch.ones(3, device=place), rank, tag=7)
    with pytest.raises(dist.DistBackendError, match="send on mydev:., rank . of 2 failed: timed out: .* from itself"):
        lonely.wait(timedelta(milliseconds=1))
    received = torch.zeros(3, device=place)
    works = [dist.irecv(received, rank, tag=7), dist.isend(torch.ones(4, device=place), rank, tag=7)]
    for work in works:
        with pytest.raises(dist.DistBackendError, match="sends 4 elements of Float to itself and receives 3 of Float"):
            work.wait(TIMEOUT)
    cases.check(received, torch.zeros(3))


def test_exchanges_with_itself_that_do_not_fit_are_errors(two: Ranks) -> None:
    cases.run(two, exchange_with_itself_wrongly)


def receive_from_any(rank: int, size: int) -> None:
    place = device()
    if rank == 0:
        seen = []
        for _ in range(size - 1):
            tensor = torch.empty(3, device=place)
            source = dist.recv(tensor)
            cases.check(tensor, torch.full((3,), float(source)))
            seen.append(source)
        assert sorted(seen) == list(range(1, size))
    else:
        dist.send(torch.full((3,), float(rank), device=place), 0)


def test_receive_from_any_source(group: Ranks) -> None:
    cases.run(group, receive_from_any)


def tags(rank: int, size: int) -> None:
    place = device()
    if rank == 0:
        works = [dist.isend(torch.full((3,), float(tag), device=place), 1, tag=tag) for tag in (1, 2)]
        for work in works:
            work.wait()
    elif rank == 1:
        second, first = torch.empty(3, device=place), torch.empty(3, device=place)
        dist.recv(second, 0, tag=2)
        dist.recv(first, 0, tag=1)
        cases.check(first, torch.full((3,), 1.0))
        cases.check(second, torch.full((3,), 2.0))


def test_tags_tell_transfers_apart(two: Ranks) -> None:
    cases.run(two, tags)


def drop_transfers(rank: int, size: int) -> None:
    place = device()
    if rank == 0:
        for i in range(20):
            dist.isend(torch.full((100_000,), float(i), device=place), 1)
    else:
        for i in range(20):
            tensor = torch.empty(100_000, device=place)
            dist.recv(tensor, 0)
            cases.check(tensor, torch.full((100_000,), float(i)))
    dist.barrier()


def test_transfer_whose_work_is_dropped_goes_on(two: Ranks) -> None:
    cases.run(two, drop_transfers)


def transfer_futures(rank: int, size: int) -> None:
    tensor = torch.full((10,), float(rank), device=device())
    work = dist.isend(tensor, 1) if rank == 0 else dist.irecv(tensor, 0)
    assert work is not None
    work.get_future().wait()
    assert work.is_completed()
    cases.check(tensor, torch.zeros(10))


def test_transfers_have_futures(two: Ranks) -> None:
    cases.run(two, transfer_futures)
