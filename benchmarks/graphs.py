"""Replays of captured training steps: against the device in eager mode, and against the CPU.

python benchmarks/graphs.py [part of a name] [--rounds N]

The digits' network is examples/train_digits.py's; the others are tests/support/models.py's. GPT-2 is given its causal
mask, since transformers would look at the batch to find out whether it needs one, and no graph can wait for that.
Behind each model: what a replay allocated from the allocator and from the driver, which is to be nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from interleaved import Benchmark

import torch_mydev

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]
import train_digits  # noqa: E402

from support import models  # noqa: E402

DEVICE = torch_mydev.device_name
MODELS = ("gpt2", "resnet", "vit", "convnext", "lstm", "unet")


def digits(device: str) -> Callable[[], torch.Tensor]:
    torch.manual_seed(0)
    model = train_digits.mlp().to(device)
    images = torch.rand(train_digits.BATCH, 1, 8, 8).to(device)
    labels = (torch.arange(train_digits.BATCH) % 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def example(name: str, device: str) -> Callable[[], torch.Tensor]:
    case = models.build(name)
    if name == "gpt2":
        seen = (
            torch.ones(models.LENGTH, models.LENGTH, dtype=torch.bool).tril().view(1, 1, models.LENGTH, models.LENGTH)
        )
        case = replace(case, inputs={**case.inputs, "attention_mask": seen})
    case = case.to(device)
    optimizer = torch.optim.SGD(case.module.parameters(), lr=0.05, momentum=0.9)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = case.loss()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def allocations() -> tuple[int, int]:
    stats = torch.mydev.memory_stats()
    return stats["allocation.all.allocated"], stats["num_device_alloc"]


def run(benchmark: Benchmark, name: str, make: Callable[[str], Callable[[], torch.Tensor]]) -> None:
    if not benchmark.wants(name):
        return
    cpu, eager, captured = make("cpu"), make(DEVICE), make(DEVICE)
    for _ in range(2):
        cpu(), eager(), captured()
    graph = torch.mydev.MyDevGraph()
    with torch.mydev.graph(graph):
        captured()
    graph.replay()
    before = allocations()
    graph.replay()
    torch.mydev.synchronize()
    after = allocations()
    benchmark.row(f"{name}: eager / replay", eager, graph.replay)
    benchmark.row(f"{name}: cpu / replay", cpu, graph.replay)
    print(f"    allocations of a replay: {after[0] - before[0]}, of the driver: {after[1] - before[1]}")


def main() -> None:
    benchmark = Benchmark("graphs: training steps", ("rival", "replay"))
    run(benchmark, "digits MLP", digits)
    for name in MODELS:
        run(benchmark, name, lambda device, name=name: example(name, device))


if __name__ == "__main__":
    main()
