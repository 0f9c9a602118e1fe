"""Trains a small transformer with the fused kernels: it learns to sort.

    python examples/custom_calls/train.py

A sequence is eight digits, a separator, and the same digits in order. Exits with 1 unless nearly all sequences that the
model has not seen are sorted right, and the same model made of PyTorch's operators agrees on their scores.
"""

from __future__ import annotations

import argparse
import sys

import torch
import torch.nn.functional as F
from build_library import build
from model import Transformer
from torch import Tensor

import torch_mydev

DEVICE = torch_mydev.device_name
DIGITS, SEPARATOR = 8, 10
LENGTH = 2 * DIGITS  # the last digit is not read
GOAL = 95.0  # percent of sequences sorted without a mistake


def sequences(count: int, generator: torch.Generator) -> Tensor:
    digits = torch.randint(0, 10, (count, DIGITS), generator=generator)
    return torch.cat([digits, torch.full((count, 1), SEPARATOR), digits.sort(1).values], 1).to(DEVICE)


def sorted_right(scores: Tensor, tokens: Tensor) -> float:
    """Percent of sequences whose every digit after the separator has the highest score."""
    right = scores[:, DIGITS:].argmax(-1) == tokens[:, DIGITS + 1 :]
    return float(right.all(1).float().mean()) * 100


def train(steps: int) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(SEPARATOR + 1, LENGTH).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        tokens = sequences(64, generator)
        scores = model(tokens[:, :-1])[:, DIGITS:]
        loss = F.cross_entropy(scores.reshape(-1, SEPARATOR + 1), tokens[:, DIGITS + 1 :].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1:4}  loss {loss.item():.4f}", flush=True)
    return model.eval()


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a transformer with the fused kernels on the device.")
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    library = torch_mydev.load_custom_calls(build())
    print(f"{library.name} {library.version}: {len(library.kernels)} kernels")

    with torch_mydev.fallback_census() as census:
        model = train(options.steps)
    tokens = sequences(500, torch.Generator().manual_seed(2))
    composed = Transformer(SEPARATOR + 1, LENGTH, fused=False).to(DEVICE).eval()
    composed.load_state_dict(model.state_dict())
    with torch.no_grad():
        scores, expected = model(tokens[:, :-1]), composed(tokens[:, :-1])
    torch.testing.assert_close(scores.cpu(), expected.cpu(), rtol=1e-4, atol=1e-4)
    reached = sorted_right(scores, tokens)
    print(f"sorted right: {reached:.1f} % (goal {GOAL} %); fused and composed scores agree")
    print(f"fallbacks in training: {census}")
    return 0 if reached >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
