"""Trains a network with PyTorch/XLA on the device, on real handwritten digits, and compares it with torch_xla's CPU.

    PJRT_DEVICE=MYDEV python examples/train_digits_torch_xla.py

A small convolutional network learns scikit-learn's digits (1,797 scans of 8 x 8 pixels), in plain PyTorch/XLA: on the
device and on torch_xla's own CPU device. A process has one of them, so each trains in a process of its own. The losses
of both are compared, step by step; then the same training step is timed on both, which take turns. Exits with 1 if the
network misses its accuracy or the devices disagree.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.connection import Connection

import torch
import torch_xla
from sklearn.datasets import load_digits
from torch import Tensor, nn

DEVICE = "MYDEV"
BATCH = 64
TEST_COUNT = 360
EPOCHS = 15
LEARNING_RATE = 3e-3
GOAL = 98.0  # percent of the test images
COMPARED_STEPS = 10  # in later ones, what was rounded otherwise has grown
TOLERANCE = 1e-3


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(256, 10),
    )


class Training:
    """The network, its optimizer and the data, on the device of this process."""

    def __init__(self) -> None:
        self.device = torch_xla.device()
        torch.manual_seed(0)  # the first parameters, and what dropout leaves out
        self.model = network().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        data = load_digits()
        images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
        labels = torch.tensor(data.target, dtype=torch.int64)
        self.order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        self.images, self.labels = images.to(self.device), labels.to(self.device)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        torch_xla.sync()
        return loss

    def train(self) -> list[float]:
        """The loss of each step."""
        losses = []
        generator = torch.Generator().manual_seed(1)
        rows = self.order[TEST_COUNT:]
        for _ in range(EPOCHS):
            shuffled = rows[torch.randperm(len(rows), generator=generator)]
            for batch in shuffled.split(BATCH):
                here = batch.to(self.device)
                losses.append(self.step(self.images[here], self.labels[here]).item())
        return losses

    def accuracy(self) -> float:
        """Percent of the test images."""
        rows = self.order[:TEST_COUNT].to(self.device)
        with torch.no_grad():
            scores = self.model.eval()(self.images[rows])
        self.model.train()
        return float((scores.argmax(1) == self.labels[rows]).float().mean()) * 100

    def time(self, steps: int) -> float:
        """Microseconds of one step."""
        images, labels = self.images[:BATCH], self.labels[:BATCH]
        torch_xla.sync(wait=True)
        begin = time.perf_counter()
        for _ in range(steps):
            self.step(images, labels)
        torch_xla.sync(wait=True)
        return (time.perf_counter() - begin) / steps * 1e6


def serve(connection: Connection) -> None:
    """Runs in a process of its own: trains, then times as many steps as the first process asks for, until that is 0."""
    training = Training()
    connection.send((str(torch_xla.runtime.device_type()), training.train(), training.accuracy()))
    while steps := connection.recv():
        connection.send(training.time(steps))


def start(device_type: str) -> Connection:
    here, there = multiprocessing.Pipe()
    os.environ["PJRT_DEVICE"] = device_type
    multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True).start()
    return here


def main() -> int:
    argparse.ArgumentParser(description="Train a network on handwritten digits with PyTorch/XLA.").parse_args()
    workers = {device: start(device) for device in (DEVICE, "CPU")}
    print(f"torch_xla {torch_xla.__version__} with torch {torch.__version__}", flush=True)
    losses, good = {}, True
    for device, worker in workers.items():
        used, losses[device], reached = worker.recv()
        assert used == device
        print(f"{device}: loss {losses[device][-1]:.4f}, test accuracy {reached:.2f} % (goal {GOAL} %)", flush=True)
        good = good and reached >= GOAL
    pairs = list(zip(losses[DEVICE], losses["CPU"], strict=True))[:COMPARED_STEPS]
    difference = max(abs(ours - theirs) / theirs for ours, theirs in pairs)
    print(f"losses of the first {len(pairs)} steps differ by at most {difference:.1e} of their size (goal {TOLERANCE})")
    good = good and difference <= TOLERANCE
    micros = time_in_turns(workers)
    print(
        f"training step: {micros[DEVICE]:.0f} us on {DEVICE}, {micros['CPU']:.0f} us on torch_xla's CPU: "
        f"{micros['CPU'] / micros[DEVICE]:.2f} times as fast"
    )
    for worker in workers.values():
        worker.send(0)
    print("demo: all is well" if good else "demo: a goal was missed, see above")
    return 0 if good else 1


def time_in_turns(workers: dict[str, Connection], rounds: int = 30, steps: int = 5) -> dict[str, float]:
    """Median microseconds of one training step on each device."""
    times: dict[str, list[float]] = {device: [] for device in workers}
    for round_number in range(rounds + 5):
        for device, worker in workers.items():
            worker.send(steps)
            micros = worker.recv()
            if round_number >= 5:  # the first rounds warm up
                times[device].append(micros)
    return {device: statistics.median(values) for device, values in times.items()}


if __name__ == "__main__":
    sys.exit(main())
