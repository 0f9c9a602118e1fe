"""The libraries that are told about the device, and MYDEV_INTEGRATIONS, which chooses among them."""

from __future__ import annotations

from mydev.wording import did_you_mean
from torch_mydev import _C
from torch_mydev.integrations import accelerate, flex_attention, lightning, safetensors, transformers

VARIABLE = "MYDEV_INTEGRATIONS"

INTEGRATIONS = {
    integration.name: integration
    for integration in (
        accelerate.INTEGRATION,
        flex_attention.INTEGRATION,
        lightning.INTEGRATION,
        safetensors.INTEGRATION,
        transformers.INTEGRATION,
    )
}


def environment_problem() -> str:
    """The problem with the variable, whose form has been checked, or "". Changes nothing."""
    for name in _names():
        if name not in INTEGRATIONS:
            advice = did_you_mean(name, INTEGRATIONS, otherwise=f"there are {', '.join(INTEGRATIONS)}")
            return f"{VARIABLE}='{_C.config_value(VARIABLE)}' is not valid: there is no integration {name}; {advice}"
    return ""


def apply() -> None:
    """Waits for the libraries that the variable names. Called once, at registration."""
    for name in _names():
        INTEGRATIONS[name].apply()


def _names() -> list[str]:
    value = str(_C.config_value(VARIABLE))
    if value in ("all", "off"):
        return list(INTEGRATIONS) if value == "all" else []
    return [name for name in value.split(",") if name]
