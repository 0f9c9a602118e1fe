"""Trains the convolutional network of train_digits.py on several processes, by DDP and by FSDP2.

    torchrun --nproc-per-node=2 examples/train_digits_distributed.py [--rounds 10]

Rank 0 first trains alone, while the others wait; then all train together, each on its rows of every batch. Prints for
each way the accuracy on the test images, the time of a step against one process, and the share of it that goes into
communication: what the step takes more than the same computation without it. Exits with 1 if an accuracy misses the
goal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from train_digits import BATCH, DEVICE, JOBS, Digits, Trainer, accuracy, train

TIMED_BATCHES = (BATCH, 1024)
WARMUP_ROUNDS = 3
JOB = next(job for job in JOBS if job.name == "convolutional network")
Wrap = Callable[[nn.Module], nn.Module]


def data_parallel(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model)


def fully_sharded(model: nn.Module) -> nn.Module:
    fully_shard([layer for layer in model if isinstance(layer, nn.Conv2d)])
    fully_shard(model)
    return model


WAYS: dict[str, Wrap] = {"DDP": data_parallel, "FSDP2": fully_sharded}


def share(batch: Tensor) -> Tensor:
    """This process's rows of a batch."""
    return batch.tensor_split(dist.get_world_size())[dist.get_rank()]


def test_accuracy(model: nn.Module, digits: Digits) -> float:
    with torch.no_grad():
        return accuracy(model.eval()(digits.test_images.to(DEVICE)), digits.test_labels)


def average(value: float) -> float:
    """Over the processes."""
    total = torch.tensor([value], device=DEVICE)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def time_steps(
    trainers: dict[str, Trainer], images: Tensor, labels: Tensor, together: bool, rounds: int
) -> dict[str, float]:
    """Median milliseconds of a training step of each trainer; they take turns. ``together``: all processes do this."""
    times: dict[str, list[float]] = {name: [] for name in trainers}
    for round_number in range(WARMUP_ROUNDS + rounds):
        for name, trainer in trainers.items():
            if together:
                average(0.0)  # all begin at once
            begin = time.perf_counter()
            for _ in range(4):
                trainer.step(images, labels)
            torch.accelerator.synchronize()
            if round_number >= WARMUP_ROUNDS:
                times[name].append((time.perf_counter() - begin) / 4 * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def train_alone(digits: Digits, rounds: int) -> list[float]:
    """Test accuracy, and milliseconds per step for each batch size."""
    reached = test_accuracy(train(JOB, digits, Trainer(JOB, DEVICE), "one process"), digits)
    times = []
    for size in TIMED_BATCHES:
        images, labels = digits.train_images[:size].to(DEVICE), digits.train_labels[:size].to(DEVICE)
        times.append(time_steps({"alone": Trainer(JOB, DEVICE)}, images, labels, False, rounds)["alone"])
    return [reached, *times]


def train_together(digits: Digits, way: str, alone: list[float], rounds: int) -> bool:
    first = dist.get_rank() == 0
    trainer = Trainer(JOB, DEVICE, WAYS[way])
    torch.manual_seed(0)  # the same order of images on all processes,
    torch.get_device_module().manual_seed(dist.get_rank())  # and dropout of its own on each
    model = train(JOB, digits, trainer, f"{way}, {dist.get_world_size()} processes", share, quiet=not first)
    reached = average(test_accuracy(model, digits))
    if first:
        print(f"  test accuracy          {reached:.2f} % (goal {JOB.goal} %)")
    model.train()
    for size, time_alone in zip(TIMED_BATCHES, alone, strict=True):
        images, labels = share(digits.train_images[:size]).to(DEVICE), share(digits.train_labels[:size]).to(DEVICE)
        times = time_steps({"with": trainer, "without": Trainer(JOB, DEVICE)}, images, labels, True, rounds)
        step, computation = average(times["with"]), average(times["without"])
        if first:
            print(
                f"  step of {size:4} images    {step:.2f} ms, {time_alone:.2f} ms in one process: "
                f"{time_alone / step:.2f} times as fast; communication {max(0.0, 1 - computation / step):.0%} of it"
            )
    return reached >= JOB.goal


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the digits on several processes, started by torchrun.")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of four steps that are timed (default: 10)")
    rounds = parser.parse_args().rounds
    dist.init_process_group()
    first = dist.get_rank() == 0
    digits = Digits.load()
    alone = torch.zeros(1 + len(TIMED_BATCHES), device=DEVICE)
    if first:
        size, threads = dist.get_world_size(), torch.get_num_threads()
        print(f"{DEVICE}, torch {torch.__version__}, {size} processes, {threads} threads each")
        alone.copy_(torch.tensor(train_alone(digits, rounds)))
        print(f"  test accuracy          {alone[0].item():.2f} % (goal {JOB.goal} %)")
    dist.broadcast(alone, 0)
    reached, *times = alone.tolist()
    good = [reached >= JOB.goal, *(train_together(digits, way, times, rounds) for way in WAYS)]
    dist.destroy_process_group()
    if first:
        print("demo: all is well" if all(good) else "demo: a goal was missed, see above")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
