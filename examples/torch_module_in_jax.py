"""Trains a recurrent module of PyTorch inside a scan of JAX: one program of the device for each step of optax.

    python examples/torch_module_in_jax.py

A recurrent cell of PyTorch reads scikit-learn's digits row by row, in jax.lax.scan. jax.grad goes through all of it.
Exits with 1 if the network misses its accuracy.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from sklearn.datasets import load_digits

import torch_mydev
from torch_mydev.jax import function, to_jax

DEVICE = torch_mydev.device_name
GOAL = 95.0  # percent of the test images
OPTIMIZER = optax.adam(5e-3)


# [docs: module]
class Reader(torch.nn.Module):
    """A cell that reads one row of an image, and scores for what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.scores = torch.nn.GRUCell(8, 64), torch.nn.Linear(64, 10)

    def forward(self, row: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        memory = self.cell(row, memory)
        return memory, self.scores(memory)


reader = Reader().to(DEVICE)
read = function(reader)  # read(parameters, row, memory), in JAX
parameters = {name: to_jax(parameter.detach()) for name, parameter in reader.named_parameters()}


def loss(parameters: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    def next_row(memory: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        memory, scores = read(parameters, row, memory)
        return memory, scores

    _, scores = jax.lax.scan(next_row, jnp.zeros((len(images), 64)), images.transpose(1, 0, 2))
    return optax.softmax_cross_entropy_with_integer_labels(scores[-1], labels).mean(), scores[-1]


@jax.jit
def training_step(parameters: Any, state: Any, images: jax.Array, labels: jax.Array) -> tuple[Any, Any, jax.Array]:
    (value, _), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, images, labels)
    updates, state = OPTIMIZER.update(gradients, state)
    return optax.apply_updates(parameters, updates), state, value


# [docs: end]


def main() -> int:
    argparse.ArgumentParser(description="Train a torch module in a scan of JAX.").parse_args()
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[order] / 16).astype(np.float32)
    labels = data.target[order].astype(np.int32)
    trained, state = parameters, OPTIMIZER.init(parameters)
    for epoch in range(12):
        batches = np.random.default_rng(epoch).permutation(np.arange(360, len(labels)))
        for batch in np.split(batches[: len(batches) // 64 * 64], len(batches) // 64):
            trained, state, value = training_step(trained, state, images[batch], labels[batch])
    scores = jax.jit(loss)(trained, images[:360], labels[:360])[1]
    reached = float((np.asarray(scores).argmax(1) == labels[:360]).mean() * 100)
    print(f"loss {float(value):.4f}, test accuracy {reached:.2f} % (goal {GOAL} %)")
    return 0 if reached >= GOAL else 1


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", f"{DEVICE},cpu")
    sys.exit(main())
