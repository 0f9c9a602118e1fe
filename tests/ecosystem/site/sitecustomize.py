"""Declares torchvision's operators where they do not load: see tests/support/models.py.

Python imports this by itself in programs that tests start with this folder on their path, so the programs stay plain.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "torchvision":  # the one beside a torch without CUDA
            sys.meta_path.remove(self)
            import torch

            for name in ("nms", "qnms") if torch.version.cuda is None else ():
                torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float threshold) -> Tensor")
        return None


sys.meta_path.insert(0, _BeforeTorchvision())
