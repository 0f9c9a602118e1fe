"""Collectives in compiled graphs: without a graph break, and with the results of eager mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor

from support import collective_cases as cases
from support.ranks import Ranks, device

mydev = torch.mydev

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["host", "host:remote,async"])
def pair(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    ranks = Ranks(2, MYDEV_DRIVER=request.param)
    yield ranks
    ranks.stop()


def in_place(x: Tensor) -> Tensor:
    y = x * 2 + 1
    dist.all_reduce(y)
    z = y.sin() + x
    everyone = torch.empty(2 * x.numel(), device=x.device)
    dist.all_gather_single(everyone, z)
    return everyone.square().sum() + z


def functionally(x: Tensor) -> Tensor:
    group = dist.group.WORLD
    assert group is not None
    mean = functional.all_reduce(x.exp(), "avg", group)
    parts = functional.reduce_scatter_tensor(mean * x, "sum", 0, group)
    everyone = functional.all_gather_tensor(parts.cos(), 0, group)
    swapped = functional.all_to_all_single(everyone, None, None, group)
    first, second = functional.all_reduce_coalesced([swapped + 1, x], "max", group)
    return functional.broadcast(first, 0, group) - second


def unused(x: Tensor) -> Tensor:
    y = x + 1
    dist.all_reduce(y)
    return x * 2


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    function.__name__: function for function in (in_place, functionally, unused)
}


def compiled(rank: int, size: int, name: str, backend: str) -> None:
    function = FUNCTIONS[name]
    x = cases.values(rank, torch.float32, (1000,)).to(device())
    run = torch.compile(function, fullgraph=True, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(run(x), function(x))
        x.add_(1)


@pytest.mark.parametrize("backend", ["inductor", "mydev_program", "mydev_kernels"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(pair: Ranks, name: str, backend: str) -> None:
    cases.run(pair, compiled, name=name, backend=backend)


def with_gradient(rank: int, size: int, backend: str) -> None:
    group = dist.group.WORLD
    assert group is not None

    def loss(x: Tensor) -> Tensor:
        return functional.all_gather_tensor_autograd(x.sin(), 0, group).square().sum()

    gradients = []
    for run in (loss, torch.compile(loss, fullgraph=True, backend=backend)):
        x = cases.values(rank, torch.float32, (100,)).to(device()).requires_grad_()
        run(x).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize("backend", ["inductor", "mydev_program", "mydev_kernels"])
def test_gradients(pair: Ranks, backend: str) -> None:
    cases.run(pair, with_gradient, backend=backend)
