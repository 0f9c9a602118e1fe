"""Trains two models on the device, on real handwritten digits, and compares it with the CPU.

    python examples/train_digits.py

An MLP and a small convolutional network learn scikit-learn's digits (1,797 scans of 8 x 8 pixels). For each: train on
the device, save, load on the CPU, check that both devices agree; then time the same training step on both, interleaved,
and list what fell back to the CPU. Exits with 1 if a model misses its accuracy, the devices disagree, or a training
step fell back.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from tqdm import tqdm

import torch_mydev

DEVICE = torch_mydev.device_name
BATCH = 64
TEST_COUNT = 360


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(256, 10),
    )


@dataclass(frozen=True)
class Job:
    name: str
    build: Callable[[], nn.Module]
    epochs: int
    learning_rate: float
    goal: float  # test accuracy, percent


JOBS = (
    Job("MLP", mlp, epochs=30, learning_rate=3e-3, goal=97.0),
    Job("convolutional network", convolutional, epochs=15, learning_rate=5e-3, goal=98.5),
)


@dataclass(frozen=True)
class Digits:
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    @staticmethod
    def load() -> Digits:
        data = load_digits()
        images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
        labels = torch.tensor(data.target, dtype=torch.int64)
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        test, train = order[:TEST_COUNT], order[TEST_COUNT:]
        return Digits(images[train], labels[train], images[test], labels[test])


class Trainer:
    """A model, its optimizer and one training step. ``wrap`` makes of the model what is trained."""

    def __init__(self, job: Job, device: str, wrap: Callable[[nn.Module], nn.Module] = lambda model: model) -> None:
        torch.manual_seed(0)
        self.model = wrap(job.build().to(device))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=job.learning_rate)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss


def train(
    job: Job,
    digits: Digits,
    trainer: Trainer,
    title: str,
    share: Callable[[Tensor], Tensor] = lambda batch: batch,
    quiet: bool = False,
) -> nn.Module:
    """Trains for the job's epochs. ``share`` says which rows of a batch this process takes."""
    images, labels = digits.train_images.to(DEVICE), digits.train_labels.to(DEVICE)
    batches = (len(images) + BATCH - 1) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        trainer.optimizer, job.learning_rate, total_steps=job.epochs * batches
    )
    with tqdm(total=job.epochs * batches, desc=title, unit="step", file=sys.stdout, disable=quiet) as progress:
        for _ in range(job.epochs):
            order = torch.randperm(len(images)).to(DEVICE)
            for batch in map(share, order.split(BATCH)):
                loss = trainer.step(images.index_select(0, batch), labels.index_select(0, batch))
                schedule.step()
                progress.update()
            progress.set_postfix(loss=f"{loss.item():.4f}")
    return trainer.model.eval()


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Percent of rows whose largest score is the label's."""
    return float((scores.cpu().argmax(1) == labels).float().mean()) * 100


def check_on_cpu(job: Job, model: nn.Module, digits: Digits, scores: Tensor) -> float:
    """Saves the model, loads it on the CPU; returns the largest difference between the two devices' scores."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torch.save(model.state_dict(), path)
        loaded = job.build()
        loaded.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    with torch.no_grad():
        expected = loaded.eval()(digits.test_images)
    torch.testing.assert_close(scores.cpu(), expected, rtol=1e-4, atol=1e-4)
    return float((scores.cpu() - expected).abs().max())


def time_steps(job: Job, digits: Digits, rounds: int = 30, steps: int = 5) -> dict[str, float]:
    """Median microseconds of one training step on each device; the devices take turns within every round."""
    trainers = {device: Trainer(job, device) for device in (DEVICE, "cpu")}
    batch = {d: (digits.train_images[:BATCH].to(d), digits.train_labels[:BATCH].to(d)) for d in trainers}
    times: dict[str, list[float]] = {device: [] for device in trainers}
    for round_number in range(rounds + 5):
        for device, trainer in trainers.items():
            begin = time.perf_counter()
            for _ in range(steps):
                trainer.step(*batch[device])
            if device == DEVICE:
                torch.accelerator.synchronize()
            if round_number >= 5:  # the first rounds warm up
                times[device].append((time.perf_counter() - begin) / steps * 1e6)
    return {device: statistics.median(values) for device, values in times.items()}


def run(job: Job, digits: Digits) -> bool:
    with torch_mydev.fallback_census() as census:
        model = train(job, digits, Trainer(job, DEVICE), f"{job.name} on {DEVICE}")
    with torch.no_grad():
        scores = model(digits.test_images.to(DEVICE))
    reached = accuracy(scores, digits.test_labels)
    difference = check_on_cpu(job, model, digits, scores)
    micros = time_steps(job, digits)
    print(f"  test accuracy          {reached:.2f} % (goal {job.goal} %)")
    print(f"  saved, loaded on CPU   scores differ by at most {difference:.1e}")
    print(
        f"  training step          {micros[DEVICE]:.0f} us on {DEVICE}, {micros['cpu']:.0f} us on the CPU: "
        f"{micros['cpu'] / micros[DEVICE]:.2f} times as fast"
    )
    print("  fallbacks in training  " + str(census).replace("\n", "\n    "))
    return reached >= job.goal and census.total_calls == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Train two models on handwritten digits on the device.")
    parser.parse_args()
    print(f"{DEVICE} and the CPU, torch {torch.__version__}, {torch.get_num_threads()} threads")
    digits = Digits.load()
    good = [run(job, digits) for job in JOBS]
    print("demo: all is well" if all(good) else "demo: a goal was missed, see above")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
