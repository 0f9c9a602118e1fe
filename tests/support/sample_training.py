"""A small training that the distributed tests share: a network, its batches, training on ranks and in one process.

Each rank gets its share of every batch; losses are averaged over the ranks. The reference is the whole batch on the CPU
in the tests' own process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from . import ranks

STEPS = 4
Optimizer = Callable[..., torch.optim.Optimizer]
sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
adamw = partial(torch.optim.AdamW, lr=1e-2)


class Block(nn.Module):
    """Both halves of a feed-forward layer, as tensor parallelism splits them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inlet = nn.Linear(6, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.outlet = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return self.outlet(x)


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 6, generator=generator), torch.randint(4, (8,), generator=generator)


def share(step: int) -> tuple[Tensor, Tensor]:
    """This rank's part of the batch, on its device."""
    inputs, targets = (part.chunk(dist.get_world_size())[dist.get_rank()] for part in batch(step))
    return inputs.to(ranks.device()), targets.to(ranks.device())


Result = tuple[list[float], dict[str, Tensor]]  # the losses, and the parameters after the last step


def single_process(network: nn.Module | None = None, make_optimizer: Optimizer = sgd, steps: int = STEPS) -> Result:
    """Training on the CPU."""
    model = Network() if network is None else network
    optimizer = make_optimizer(model.parameters())
    losses = [optimize(model, optimizer, *batch(step)).item() for step in range(steps)]
    return losses, {name: value.detach().clone() for name, value in model.state_dict().items()}


def optimize(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()


def average(loss: Tensor) -> float:
    """Over the ranks."""
    loss = loss.float()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range = range(STEPS)) -> list[float]:
    return [average(optimize(model, optimizer, *share(step))) for step in steps]


def on_cpu(state: dict[str, Any]) -> dict[str, Tensor]:
    return {name: value.detach().cpu() for name, value in state.items()}


def full_parameters(model: nn.Module) -> dict[str, Tensor]:
    """The whole model, collected from all ranks."""
    return on_cpu(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)))


def shard_fully(model: Network, **options: Any) -> Network:
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model


def all_ranks() -> dist.DeviceMesh:
    return init_device_mesh(ranks.device().type, (dist.get_world_size(),))


def assert_equal_training(results: list[Result], expected: Result) -> None:
    for losses, parameters in results:
        torch.testing.assert_close(losses, expected[0])
        torch.testing.assert_close(parameters, expected[1])
