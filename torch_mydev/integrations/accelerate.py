"""Hugging Face's accelerate: the device is chosen as CUDA would be, in one process and in several.

accelerate has lists of devices in many places. Its variable ACCELERATE_TORCH_DEVICE names another one, but overrules
``cpu=True``, and says nothing to the processes that a launcher starts; so what chooses is replaced instead. Several
devices of a kind need a name of accelerate's own there, and get XPU's, whose files it reads on the host first.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import torch
import torch.distributed as dist

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device import memory
from torch_mydev.integrations import choice, random_state
from torch_mydev.integrations.integration import Integration, UnfamiliarError

FOR_THE_CPU = "Accelerator(cpu=True), accelerate launch --cpu, or use_cpu=True"


def _patch_state(module: Any) -> None:
    """Has ``PartialState`` choose the device where it would choose the CPU for want of another accelerator.

    Reason: it asks for each accelerator that it knows by name.
    Remove when: accelerate asks torch.accelerator.
    """
    state: Any = module.PartialState
    default_device, prepare_backend, set_device = state.default_device.fget, state._prepare_backend, state.set_device
    several = module.DistributedType.MULTI_XPU

    def chosen(self: Any) -> torch.device:
        device: torch.device = default_device(self)
        if device.type != "cpu" or not choice.is_accelerator():
            return device
        choice.announce("accelerate", FOR_THE_CPU)
        return torch.device(DEVICE_NAME)

    @functools.wraps(prepare_backend)
    def _prepare_backend(self: Any, cpu: bool = False, sagemaker_dp: bool = False, backend: Any = None) -> Any:
        result = prepare_backend(self, cpu, sagemaker_dp, backend)
        launched = int(os.environ.get("LOCAL_RANK", "-1")) != -1
        free = self.device is None or self.device.type == DEVICE_NAME
        if not launched or cpu or not free or result[1] != module.DistributedType.NO or not choice.is_accelerator():
            return result
        own = dist.get_default_backend_for_device(DEVICE_NAME)
        return backend or f"cpu:gloo,{DEVICE_NAME}:{own}", several

    @functools.wraps(set_device)
    def _set_device(self: Any) -> None:
        if self.distributed_type != several or not choice.is_accelerator():
            set_device(self)
            return
        rank, count = self.local_process_index, torch.accelerator.device_count()
        if rank >= count:
            raise RuntimeError(
                f"accelerate gives each process of a host a device of its own, and process {rank} has none: devices "
                f"are 0 to {count - 1}. The host driver has as many as you ask for: "
                f"MYDEV_DRIVER=host:devices={rank + 1}"
            )
        torch.accelerator.set_device_index(rank)
        self.device = torch.device(DEVICE_NAME, rank)
        choice.announce("accelerate", FOR_THE_CPU)

    state.default_device = property(chosen, doc=state.default_device.__doc__)
    state._prepare_backend, state.set_device = _prepare_backend, _set_device


def _patch_modeling(module: Any) -> None:
    """Counts the device's memory for ``device_map="auto"``, and scales gradients on it.

    Reason: both functions have lists of devices. Without CUDA, the first then offers the host's memory alone, and the
    second makes a scaler for CUDA, which switches itself off.
    Remove when: accelerate asks torch.accelerator for memory, and gives the scaler the state's device.
    """
    get_max_memory, get_grad_scaler = module.get_max_memory, module.get_grad_scaler

    @functools.wraps(get_max_memory)
    def with_the_device(max_memory: Any = None) -> Any:
        if not choice.is_accelerator() or torch.cuda.is_available():
            return get_max_memory(max_memory)
        numbers = range(torch.accelerator.device_count())
        if max_memory is None:
            return {**{number: _usable(number) for number in numbers}, **get_max_memory()}
        given = sorted(key for key in max_memory if isinstance(key, int))
        if unknown := sorted(set(given) - set(numbers)):
            raise ValueError(f"max_memory names the devices {unknown}, but there are {list(numbers)}")
        for key, size in max_memory.items():  # in place, which callers count on
            max_memory[key] = module.convert_file_size_to_int(size) if isinstance(size, str) else size
        others = get_max_memory({key: size for key, size in max_memory.items() if key not in given})
        return {**{key: max_memory[key] for key in given}, **others}

    @functools.wraps(get_grad_scaler)
    def for_the_device(distributed_type: Any = None, **options: Any) -> Any:
        device = module.AcceleratorState._shared_state.get("device")
        if device is None or device.type != DEVICE_NAME:
            return get_grad_scaler(distributed_type, **options)
        if distributed_type == module.DistributedType.FSDP:
            from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

            return ShardedGradScaler(device=DEVICE_NAME, **options)
        return torch.amp.GradScaler(DEVICE_NAME, **options)

    module.get_max_memory, module.get_grad_scaler = with_the_device, for_the_device


def _usable(number: int) -> int:
    """Bytes that new tensors may take on a device: what is free there, and what the allocator holds but nobody uses."""
    return memory.mem_get_info(number)[0] + memory.memory_reserved(number) - memory.memory_allocated(number)


def _patch_accelerator(module: Any) -> None:
    """Lets ``Accelerator(mixed_precision="fp16")`` take the device.

    Reason: its constructor has the devices that it takes in a tuple of its own, with no place to add one.
    Guard: leaves a constructor alone that has no such tuple.
    Remove when: accelerate asks torch.amp whether a device can.
    """
    constructor = module.Accelerator.__init__
    code = constructor.__code__
    lists = [value for value in code.co_consts if isinstance(value, tuple) and {"cuda", "xpu", "mps"} <= set(value)]
    if len(lists) != 1:
        raise UnfamiliarError("Accelerator.__init__ has no list of the devices that compute in fp16")
    constants = tuple((*value, DEVICE_NAME) if value is lists[0] else value for value in code.co_consts)
    constructor.__code__ = code.replace(co_consts=constants)


def _patch_checkpointing(module: Any) -> None:
    """Keeps the device's random state with ``save_state`` and ``load_state``.

    Reason: accelerate keeps those of the devices that it knows, and nothing of others.
    Remove when: accelerate asks torch.accelerator's module for the random state.
    """
    save, load = module.save_accelerator_state, module.load_accelerator_state

    @functools.wraps(save)
    def save_accelerator_state(output_dir: Any, *args: Any, **options: Any) -> Any:
        result = save(output_dir, *args, **options)
        if choice.is_accelerator():
            random_state.save(output_dir, _process())
        return result

    @functools.wraps(load)
    def load_accelerator_state(input_dir: Any, *args: Any, **options: Any) -> Any:
        result = load(input_dir, *args, **options)
        if choice.is_accelerator():
            random_state.load(input_dir, _process())
        return result

    module.save_accelerator_state, module.load_accelerator_state = save_accelerator_state, load_accelerator_state


def _process() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _patch_launch(module: Any) -> None:
    """Has ``accelerate launch`` start a process for each device, or as many as it is told to.

    Reason: it counts the accelerators that it knows; without one it starts one process, whatever it is told.
    Remove when: accelerate asks torch.accelerator.
    """
    original = module._validate_launch_command

    @functools.wraps(original)
    def _validate_launch_command(args: Any) -> Any:
        configured = args.config_file is not None or os.path.isfile(module.default_config_file)
        distributed = args.multi_gpu or args.use_fsdp or args.use_deepspeed or args.use_megatron_lm or args.tpu
        if not configured and not args.cpu and not torch.cuda.is_available() and choice.is_accelerator():
            count = torch.accelerator.device_count()
            if args.num_processes is None:
                args.num_processes = count
            args.multi_gpu = args.multi_gpu or (not distributed and args.num_processes > 1 and count > 1)
        return original(args)

    module._validate_launch_command = _validate_launch_command


INTEGRATION = Integration(
    name="accelerate",
    distribution="accelerate",
    since=(1, 15),
    before=(2, 0),
    actions={
        "accelerate.state": _patch_state,
        "accelerate.utils.modeling": _patch_modeling,
        "accelerate.accelerator": _patch_accelerator,
        "accelerate.checkpointing": _patch_checkpointing,
        "accelerate.commands.launch": _patch_launch,
    },
)
