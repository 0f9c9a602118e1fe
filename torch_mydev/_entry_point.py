"""Torch calls this at the end of ``import torch``, with another version of mydev too, of which nothing is used."""

from __future__ import annotations

import warnings

from torch_mydev._importing import forget_package
from torch_mydev._version import explain_mydev


def autoload() -> None:
    """Entry point ``torch.backends``. Never raises."""
    problem = explain_mydev()
    if problem:
        warnings.warn(f"the device is not available in this process: {problem}", stacklevel=2)
        forget_package()
        return
    from torch_mydev import _autoload

    _autoload.autoload()
