"""Lightning's Trainer and Fabric: an accelerator of the device's name; "auto" where it is the machine's accelerator.

Lightning's registry of accelerators is used. Some functions are replaced, since they handle only the classes that
Lightning knows: the choice by "auto", the device of a single process, and mixed precision.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device import memory
from torch_mydev.integrations import choice
from torch_mydev.integrations.integration import Integration

FOR_THE_CPU = 'accelerator="cpu"'


def _register(module: Any, registry: str) -> None:
    """Registers the accelerator. ``module``: Lightning's package of accelerators; ``registry``: its name there."""

    class MyDevAccelerator(module.Accelerator):  # type: ignore[misc]
        """The device as Lightning asks for accelerators."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != DEVICE_NAME:
                raise ValueError(f"the accelerator '{DEVICE_NAME}' has no device '{device}'")
            torch.accelerator.set_device_index(device)

        def teardown(self) -> None:
            memory.empty_cache()

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            return memory.memory_stats(device)

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            return _parse_devices(devices)

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device(DEVICE_NAME, index) for index in devices]

        @staticmethod
        def auto_device_count() -> int:
            return torch.accelerator.device_count()

        @staticmethod
        def is_available() -> bool:
            return choice.is_accelerator()

        @staticmethod
        def name() -> str:
            return DEVICE_NAME

    getattr(module, registry).register(DEVICE_NAME, MyDevAccelerator, description="a device of torch_mydev")


def _parse_devices(devices: Any) -> list[int]:
    """The numbers that Lightning's ``devices`` means: of how many, or which, as a number, a list, or text of either."""
    count = torch.accelerator.device_count()
    if isinstance(devices, str) and devices.strip() != "-1":
        text = devices.strip()
        devices = [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    if isinstance(devices, str) or devices == -1:
        return list(range(count))
    chosen = list(range(devices)) if isinstance(devices, int) else list(devices)
    if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= index < count for index in chosen):
        raise ValueError(
            f"devices={devices!r}, but {DEVICE_NAME} has {count}. The host driver has as many as you ask for: "
            "MYDEV_DRIVER=host:devices=N"
        )
    return chosen


def _patch_connector(module: Any, connector: Any) -> None:
    """Has the connector of Trainer or Fabric choose, place and autocast on the device.

    Reason: "auto" asks for each accelerator that Lightning knows; one device of another accelerator becomes the CPU;
    FSDP is refused, and mixed precision is autocast for CUDA, which computes in float32 with no more than a warning.
    Remove when: Lightning asks the registered accelerator for its devices, and autocasts for the strategy's device.
    """
    choose, choose_gpu = connector._choose_auto_accelerator, connector._choose_gpu_accelerator_backend
    choose_strategy, check_strategy = connector._choose_strategy, connector._check_strategy_and_fallback
    check_precision = connector._check_and_init_precision

    def is_own(self: Any) -> bool:
        return bool(self.accelerator.name() == DEVICE_NAME)

    @functools.wraps(choose)
    def _choose_auto_accelerator() -> str:
        flag = str(choose())
        if flag != "cpu" or not choice.is_accelerator():
            return flag
        choice.announce("Lightning", FOR_THE_CPU)
        return DEVICE_NAME

    @functools.wraps(choose_gpu)
    def _choose_gpu_accelerator_backend() -> str:
        if torch.cuda.is_available() or not choice.is_accelerator():
            return str(choose_gpu())
        choice.announce("Lightning", FOR_THE_CPU)
        return DEVICE_NAME

    @functools.wraps(choose_strategy)
    def _choose_strategy(self: Any) -> Any:
        if is_own(self) and self._num_nodes_flag == 1 and len(self._parallel_devices) == 1:
            return module.SingleDeviceStrategy(device=self._parallel_devices[0])
        return choose_strategy(self)

    @functools.wraps(check_strategy)
    def _check_strategy_and_fallback(self: Any) -> None:
        flag = self._accelerator_flag
        if is_own(self):  # it is asked for its name alone, to tell GPUs from others
            self._accelerator_flag = "cuda"
        try:
            check_strategy(self)
        finally:
            self._accelerator_flag = flag

    @functools.wraps(check_precision)
    def _check_and_init_precision(self: Any) -> Any:
        plugin = check_precision(self)
        given = getattr(self, "_precision_instance", None) or getattr(self, "_precision_plugin_flag", None)
        if is_own(self) and plugin is not given and type(plugin) is module.MixedPrecision:
            return module.MixedPrecision(plugin.precision, DEVICE_NAME)
        return plugin

    connector._choose_auto_accelerator = staticmethod(_choose_auto_accelerator)
    connector._choose_gpu_accelerator_backend = staticmethod(_choose_gpu_accelerator_backend)
    connector._choose_strategy, connector._check_strategy_and_fallback = _choose_strategy, _check_strategy_and_fallback
    connector._check_and_init_precision = _check_and_init_precision


def _patch_fsdp_precision(module: Any) -> None:
    """Autocasts and scales for the device under FSDP.

    Reason: "cuda" is written into the plugin; its scaler, without a device, is for CUDA and switches itself off.
    Guard: where CUDA is available, the plugin stays as it is.
    Remove when: the plugin asks the strategy for its device.
    """
    plugin = module.FSDPPrecision
    construct, forward_context = plugin.__init__, plugin.forward_context

    @functools.wraps(construct)
    def __init__(self: Any, precision: Any, scaler: Any = None) -> None:
        construct(self, precision, scaler)
        if scaler is None and precision == "16-mixed" and _is_for_the_device():
            from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

            self.scaler = ShardedGradScaler(device=DEVICE_NAME)

    @functools.wraps(forward_context)
    def on_the_device(self: Any) -> Any:
        if "mixed" in self.precision and _is_for_the_device():
            return torch.autocast(DEVICE_NAME, torch.bfloat16 if self.precision == "bf16-mixed" else torch.float16)
        return forward_context(self)

    plugin.__init__, plugin.forward_context = __init__, on_the_device


def _patch_ddp(module: Any) -> None:
    """Wraps modules on the device in DistributedDataParallel without naming devices.

    Reason: where the strategy names one, Lightning makes a stream of CUDA's to wrap the module in.
    Remove when: it asks torch.accelerator for the stream.
    """
    strategy = module.DDPStrategy
    name = "determine_ddp_device_ids" if hasattr(strategy, "determine_ddp_device_ids") else "_determine_ddp_device_ids"
    original = getattr(strategy, name)

    @functools.wraps(original)
    def device_ids(self: Any) -> Any:
        return None if self.root_device.type == DEVICE_NAME else original(self)

    setattr(strategy, name, device_ids)


def _is_for_the_device() -> bool:
    return choice.is_accelerator() and not torch.cuda.is_available()


INTEGRATION = Integration(
    name="lightning",
    distribution="lightning",
    since=(2, 6),
    before=(3, 0),
    actions={
        "lightning.fabric.accelerators": lambda module: _register(module, "ACCELERATOR_REGISTRY"),
        "lightning.fabric.connector": lambda module: _patch_connector(module, module._Connector),
        "lightning.fabric.plugins.precision.fsdp": _patch_fsdp_precision,
        "lightning.fabric.strategies.ddp": _patch_ddp,
        "lightning.pytorch.accelerators": lambda module: _register(module, "AcceleratorRegistry"),
        "lightning.pytorch.trainer.connectors.accelerator_connector": lambda module: _patch_connector(
            module, module._AcceleratorConnector
        ),
        "lightning.pytorch.plugins.precision.fsdp": _patch_fsdp_precision,
        "lightning.pytorch.strategies.ddp": _patch_ddp,
    },
)
