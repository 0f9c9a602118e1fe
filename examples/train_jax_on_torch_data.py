"""Trains a JAX model on batches that a torch DataLoader makes, on one device, with no copy between the two.

    python examples/train_jax_on_torch_data.py

scikit-learn's digits (1,797 scans of 8 x 8 pixels) are loaded, moved to the device and made noisy by PyTorch;
a network in plain JAX with Adam from optax learns from them; its scores are judged by PyTorch. Exits with 1 if the
network misses its accuracy, or a batch was copied.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import torch_mydev
from torch_mydev.jax import from_jax, to_jax

DEVICE = torch_mydev.device_name
BATCH = 64
TEST_COUNT = 360
EPOCHS = 12
GOAL = 95.0  # percent of the test images

Parameters = list[tuple[jax.Array, jax.Array]]
OPTIMIZER = optax.adam(3e-3)


def digits() -> tuple[TensorDataset, TensorDataset]:
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = torch.from_numpy(data.images[order]).float() / 16
    labels = torch.from_numpy(data.target[order]).int()
    return (
        TensorDataset(images[TEST_COUNT:], labels[TEST_COUNT:]),
        TensorDataset(images[:TEST_COUNT], labels[:TEST_COUNT]),
    )


def with_noise(images: Tensor) -> Tensor:
    """Rows of pixels, by PyTorch's operators on the device."""
    return (images + 0.1 * torch.randn_like(images)).flatten(1)


def initial_parameters(sizes: tuple[int, ...] = (64, 128, 10)) -> Parameters:
    keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
    return [
        (jax.random.normal(key, (n, m)) * np.sqrt(2 / n), jnp.zeros(m))
        for key, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


@jax.jit
def scores(parameters: Parameters, images: jax.Array) -> jax.Array:
    *hidden, (weight, bias) = parameters
    x = images
    for w, b in hidden:
        x = jax.nn.relu(x @ w + b)
    return x @ weight + bias


@jax.jit
def training_step(
    parameters: Parameters, state: Any, images: jax.Array, labels: jax.Array
) -> tuple[Parameters, Any, jax.Array]:
    def loss(parameters: Parameters) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(scores(parameters, images), labels).mean()

    value, gradients = jax.value_and_grad(loss)(parameters)
    updates, state = OPTIMIZER.update(gradients, state)
    return optax.apply_updates(parameters, updates), state, value


def train(dataset: TensorDataset) -> tuple[Parameters, int]:
    """The parameters, and how many batches were copied."""
    parameters = initial_parameters()
    state = OPTIMIZER.init(parameters)
    copied = 0
    # [docs: train]
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True)
    for _ in range(EPOCHS):
        for images, labels in loader:
            x = with_noise(images.to(DEVICE))
            batch = to_jax(x)
            parameters, state, value = training_step(parameters, state, batch, to_jax(labels.to(DEVICE)))
            # [docs: end]
            copied += batch.unsafe_buffer_pointer() != x.data_ptr()
    print(f"loss {float(value):.4f}")
    return parameters, copied


def accuracy(parameters: Parameters, dataset: TensorDataset) -> float:
    images, labels = (tensor.to(DEVICE) for tensor in dataset.tensors)
    # [docs: judge]
    best = from_jax(scores(parameters, to_jax(images.flatten(1)))).argmax(1)
    # [docs: end]
    return float((best == labels).float().mean()) * 100


def main() -> int:
    argparse.ArgumentParser(description="Train a JAX model on batches of a torch DataLoader.").parse_args()
    jax.config.update("jax_platforms", DEVICE)
    torch.manual_seed(0)
    training, test = digits()
    parameters, copied = train(training)
    reached = accuracy(parameters, test)
    print(f"test accuracy {reached:.2f} % (goal {GOAL} %), {copied} batches copied")
    return 0 if reached >= GOAL and copied == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
