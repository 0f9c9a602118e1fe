"""Refuses to capture steps of optimizers that a replay would not repeat rightly.

An optimizer that counts its steps on the host, or in Python, computes with the count of the capture at each replay.
Instead, such a step raises while it is captured.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.stream import is_current_stream_capturing

# From 2.15 on torch itself refuses to capture a step without ``capturable``, on any accelerator.
_TORCH_WANTS_CAPTURABLE = hasattr(torch.optim.Optimizer, "_accelerator_graph_capture_health_check")


class StepCheck:
    """Checks the optimizers that step while a graph captures: from ``begin`` to ``end``."""

    def __init__(self) -> None:
        self._hook: Any = None

    def begin(self) -> None:
        """Begins to check steps of the calling process."""
        self.end()
        self._hook = register_optimizer_step_pre_hook(_check)

    def end(self) -> None:
        """Ends it; does nothing where it has not begun."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None


def _check(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if not is_current_stream_capturing():
        return
    for group in optimizer.param_groups:
        parameters = [parameter for parameter in group["params"] if parameter.device.type == DEVICE_NAME]
        if parameters and _counts_on_the_host(optimizer, group, parameters):
            raise RuntimeError(
                f"a step of {type(optimizer).__name__} cannot be captured: it counts its steps on the host, so that "
                f"each replay would repeat the step of the capture; {_advice(group)}"
            )


def _counts_on_the_host(
    optimizer: torch.optim.Optimizer, group: dict[str, Any], parameters: list[torch.nn.Parameter]
) -> bool:
    if "capturable" in group:
        return not (group["capturable"] or group.get("fused"))
    if group.get("lr_decay") == 0:  # Adagrad's, which then makes no use of the count
        return False
    states = [optimizer.state.get(parameter, {}) for parameter in parameters]
    steps = [state["step"] for state in states if "step" in state]
    return any(not isinstance(step, torch.Tensor) or step.device.type != DEVICE_NAME for step in steps)


def _advice(group: dict[str, Any]) -> str:
    if "capturable" in group:
        fused = "fused" in group and not _TORCH_WANTS_CAPTURABLE
        return f"make it with capturable=True{' or fused=True' if fused else ''}"
    if "lr_decay" in group:
        return "make it with lr_decay=0, or take its steps outside of the capture"
    return "take its steps outside of the capture"
