"""The Python side of torch.ops.mydev_cc: finding kernels, fake kernels from shape rules, and batching rules."""

from __future__ import annotations


def sync_operators() -> None:
    """Makes torch.ops.mydev_cc what the registry of kernels is."""


def discover() -> None:
    """Loads what MYDEV_CUSTOM_CALLS and entry points name, once."""
