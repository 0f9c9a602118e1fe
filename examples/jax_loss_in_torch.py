"""Trains a model of PyTorch on a loss that is written in JAX, compiled as one step.

    python examples/jax_loss_in_torch.py

A classifier of scikit-learn's digits learns with a focal loss from a function of JAX; gradients go through it. Exits
with 1 if the model misses its accuracy.
"""

from __future__ import annotations

import argparse
import sys

import jax
import jax.numpy as jnp
import torch
from sklearn.datasets import load_digits

import torch_mydev
from torch_mydev.jax import operator

DEVICE = torch_mydev.device_name
GOAL = 95.0  # percent of the test images


# [docs: loss]
@operator
def focal_loss(scores: jax.Array, labels: jax.Array, gamma: float = 2.0) -> jax.Array:
    logs = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], axis=1)
    return jnp.mean(-((1 - jnp.exp(logs)) ** gamma) * logs)


# [docs: end]


def main() -> int:
    argparse.ArgumentParser(description="Train a torch model on a loss of JAX.").parse_args()
    torch.manual_seed(0)
    data = load_digits()
    images = (torch.from_numpy(data.images).float() / 16).flatten(1).to(DEVICE)
    labels = torch.from_numpy(data.target).to(DEVICE)
    order = torch.randperm(len(labels), device=DEVICE)
    test, training = order[:360], order[360:]
    # [docs: training]
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_of = torch.compile(lambda x, y: focal_loss(model(x), y, gamma=1.5), fullgraph=True)
    for _ in range(12):
        for batch in training.split(64)[:-1]:
            loss = loss_of(images[batch], labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    # [docs: end]
    with torch.no_grad():
        reached = (model(images[test]).argmax(1) == labels[test]).float().mean().item() * 100
    print(f"loss {loss.item():.4f}, test accuracy {reached:.2f} % (goal {GOAL} %)")
    return 0 if reached >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
