"""Who imports this package, and how it is imported afresh. Imports nothing."""

from __future__ import annotations

import sys
from types import FrameType

_PACKAGE = __name__.rpartition(".")[0]


def imported_by_torch() -> bool:
    """Whether torch's own initialization is what imports this package, on this thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch":
            return True
        frame = frame.f_back
    return False


def forget_package(*keep: str) -> None:
    """Lets a later ``import torch_mydev`` start afresh, and raise. The modules ``keep`` stay."""
    for name in [name for name in sys.modules if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]:
        if name not in keep:
            del sys.modules[name]
