"""What automatic mixed precision asks of the device."""

from __future__ import annotations

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast`` accepts for the device."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works. It always does: what has no kernel for it runs on the host's."""
    return True
