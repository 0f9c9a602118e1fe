"""Hugging Face's transformers: ``Trainer``, ``pipeline`` and captured graphs run on the device as they would on CUDA.

``from_pretrained`` needs nothing here: ``device_map`` is accelerate's and safetensors' matter.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.integrations import choice, random_state
from torch_mydev.integrations.integration import Integration, UnfamiliarError


def _patch_training_arguments(module: Any) -> None:
    """Has ``TrainingArguments`` keep the device that accelerate chose, and take ``bf16=True`` there.

    Reason: in one process it asks for each accelerator that it knows by name, after accelerate did; and for bfloat16 it
    asks the same list again.
    Guard: another accelerator's answers stay.
    Remove when: transformers takes the device of accelerate's state, and asks torch.amp about dtypes.
    """
    supports_bfloat16, setup = module.is_torch_bf16_gpu_available, module.TrainingArguments._setup_devices
    if not isinstance(setup, functools.cached_property):
        raise UnfamiliarError("TrainingArguments._setup_devices is not a cached property")

    @functools.wraps(supports_bfloat16)
    def is_torch_bf16_gpu_available() -> bool:
        return choice.is_accelerator() or bool(supports_bfloat16())

    def _setup_devices(self: Any) -> torch.device:
        device: torch.device = setup.func(self)
        chosen = getattr(self.distributed_state, "device", device)
        if device.type != "cpu" or chosen.type != DEVICE_NAME:
            return device
        self._n_gpu = 1
        return torch.device(DEVICE_NAME, torch.accelerator.current_device_index())

    patched = functools.cached_property(_setup_devices)
    patched.__set_name__(module.TrainingArguments, "_setup_devices")
    module.TrainingArguments._setup_devices = patched
    module.is_torch_bf16_gpu_available = is_torch_bf16_gpu_available


def _patch_trainer(module: Any) -> None:
    """Keeps the device's random state with ``Trainer``'s checkpoints.

    Reason: it keeps those of the devices that it knows, and nothing of others; training that is resumed would drop
    other values than training that was not interrupted.
    Remove when: transformers asks torch.accelerator's module for the random state.
    """
    save, load = module.Trainer._save_rng_state, module.Trainer._load_rng_state

    @functools.wraps(save)
    def _save_rng_state(self: Any, output_dir: str) -> None:
        save(self, output_dir)
        if self.args.device.type == DEVICE_NAME:
            random_state.save(output_dir, self.args.process_index)

    @functools.wraps(load)
    def _load_rng_state(self: Any, checkpoint: str | None) -> None:
        load(self, checkpoint)
        if checkpoint is not None and self.args.device.type == DEVICE_NAME:
            random_state.load(checkpoint, self.args.process_index)

    module.Trainer._save_rng_state, module.Trainer._load_rng_state = _save_rng_state, _load_rng_state


def _patch_pipeline(module: Any) -> None:
    """Has pipelines take the accelerator where they take the first one, or one by number.

    Reason: ``Pipeline`` asks for each accelerator that it knows by name, and takes the CPU if there is none, also where
    it is given a number.
    Guard: another accelerator's answer stays.
    Remove when: transformers asks torch.accelerator.
    """
    constructor = module.Pipeline.__init__
    signature = inspect.signature(constructor)
    if "device" not in signature.parameters or "model" not in signature.parameters:
        raise UnfamiliarError("Pipeline() takes no device")

    @functools.wraps(constructor)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        given, placed = bound.arguments.get("device"), getattr(bound.arguments["model"], "hf_device_map", None)
        free = choice.is_accelerator() and not torch.cuda.is_available()
        number = 0 if given is None else given
        if free and placed is None and isinstance(number, int) and number >= 0:
            bound.arguments["device"] = torch.device(DEVICE_NAME, number)
            choice.announce("transformers.pipeline", 'device="cpu"')
        constructor(*bound.args, **bound.kwargs)
        first = next(iter(placed.values())) if placed else None
        if free and isinstance(first, int) and self.device.type == "cpu":
            self.device = torch.device(DEVICE_NAME, first)

    module.Pipeline.__init__ = __init__


def _patch_tracing(module: Any) -> None:
    """Has models decide nothing by the values of their masks while a graph is captured.

    Reason: ``is_tracing`` asks the accelerators that it knows by name whether they capture, and where none does, masks
    are read on the host, which no capture can.
    Guard: another accelerator's answer stays.
    Remove when: transformers asks torch.accelerator's module.
    """
    theirs = module.is_cuda_stream_capturing

    @functools.wraps(theirs)
    def is_cuda_stream_capturing() -> bool:
        return bool(theirs()) or getattr(torch, DEVICE_NAME).is_current_stream_capturing()

    module.is_cuda_stream_capturing = is_cuda_stream_capturing


INTEGRATION = Integration(
    name="transformers",
    distribution="transformers",
    since=(5, 23),
    before=(6, 0),
    actions={
        "transformers.utils.import_utils": _patch_tracing,
        "transformers.training_args": _patch_training_arguments,
        "transformers.trainer": _patch_trainer,
        "transformers.pipelines.base": _patch_pipeline,
    },
)
