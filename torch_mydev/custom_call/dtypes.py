"""Element types by the names that messages and descriptions give them, XLA's."""

from __future__ import annotations

import torch

from torch_mydev import _C

#: "f32": torch.float32, ...
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, torch_name) for name, torch_name in _C.dtypes()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
