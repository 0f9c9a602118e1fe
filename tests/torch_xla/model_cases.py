"""The model set of tests/support/models.py on torch_xla's own CPU device and on ours: forward and backward, by name.

A program: ``python model_cases.py FILE`` computes all of them on the device that PJRT_DEVICE names.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

NAMES = ("gpt2", "llama", "bert", "vit", "resnet", "convnext", "lstm", "unet")


def compute(name: str, device: torch.device) -> dict[str, Tensor]:
    """Computes the model's prediction, the loss, and its gradients; returns them on the CPU."""
    import torch_xla

    from support.models import build

    example = build(name).to(device)
    loss = example.loss()
    loss.backward()
    results = {"loss": loss.detach(), "prediction": example.predict()}
    for parameter, value in example.module.named_parameters():
        if value.grad is not None:
            results[parameter] = value.grad
    torch_xla.sync()
    return {key: value.cpu() for key, value in results.items()}


def main() -> None:
    import torch_xla

    from support.models import MODELS

    assert set(NAMES) == set(MODELS)
    torch.save({name: compute(name, torch_xla.device()) for name in NAMES}, sys.argv[1])


if __name__ == "__main__":
    main()
