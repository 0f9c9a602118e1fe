"""The backend ``mydev`` of torch.distributed, chosen by default for tensors of the device.

Policy. A backend here is an engine for CPU tensors, put behind device tensors by csrc/distributed: gloo, with shared
memory before it where all ranks are on one machine. A vendor with a collective library of their own registers it with
``register_backend`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev._torch_version import minor_version

#: The name of the default backend in ``init_process_group`` and ``"cpu:gloo,mydev:..."``, whatever the device's name.
BACKEND_NAME = "mydev"
#: Another name of the same.
ALIAS = "mydev_gloo"

Creator = Callable[[Any, Any], Any]
EngineCreator = Callable[[Any, int, int, timedelta, Any, list[int]], Any]


def register() -> None:
    """Makes the backend known to torch.distributed, as the default for the device. Called once, at registration."""
    if dist.is_available() and dist.is_gloo_available():
        for name in (ALIAS, BACKEND_NAME):
            register_backend(name, _create_over_gloo)


def register_backend(name: str, create: Creator) -> None:
    """Makes ``name`` the device's default backend of torch.distributed.

    ``create(options, backend_options)`` makes the ``torch.distributed`` backend of one process group; ``options`` has
    ``store``, ``group_rank``, ``group_size``, ``timeout``, ``group_id`` and ``global_ranks_in_group``,
    ``backend_options`` is what the user gave as ``pg_options``. Backends registered before stay usable by name.
    """
    dist.Backend.register_backend(name, create, extended_api=True, devices=[DEVICE_NAME])
    dist.Backend.default_device_backend_map[DEVICE_NAME] = name.lower()


def over_host_backend(create_engine: EngineCreator, options: Any) -> Any:
    """A backend for tensors of the device over an engine for CPU tensors; what a ``create`` of above may return.

    ``create_engine(store, rank, size, timeout, group_name, global_ranks)`` makes the engine, any c10d backend for CPU
    tensors, of the process group that ``options`` describe, and later those of groups that it is split into.
    """
    return _C.distributed_backend(
        create_engine,
        BACKEND_NAME,
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        options.global_ranks_in_group,
    )


def refuse_device_tensors(group: Any) -> None:
    """Has a process group without a backend for the device say, when it is given tensors of it, which to ask for."""
    from torch.distributed import ProcessGroup

    own = dist.Backend.default_device_backend_map[DEVICE_NAME]
    advice = f"ask for {own!r}, or for 'cpu:gloo,{DEVICE_NAME}:{own}', when you make the process group"
    name = f"gloo (of this process group, for tensors of the CPU only; for tensors of {DEVICE_NAME}, {advice})"
    refusing = _C.refusing_distributed_backend(group.rank(), group.size(), name)
    group._register_backend(torch.device(DEVICE_NAME), ProcessGroup.BackendType.CUSTOM, refusing)


def _create_over_gloo(options: Any, backend_options: Any) -> Any:
    return over_host_backend(_create_gloo, options)


def _create_gloo(store: Any, rank: int, size: int, timeout: timedelta, group_name: Any, global_ranks: list[int]) -> Any:
    from torch.distributed.distributed_c10d import ProcessGroupGloo

    gloo = ProcessGroupGloo(store, rank, size, timeout=timeout)
    _wait_for_all(store, size, timeout)
    gloo.options.global_ranks_in_group = global_ranks
    gloo.options.group_name = group_name
    if minor_version(torch.__version__) < (2, 14):  # later ones count from 0, and warn
        gloo._set_sequence_number_for_group()
    return _C.over_shared_memory(gloo, store, timeout)


def _wait_for_all(store: Any, size: int, timeout: timedelta) -> None:
    """Returns when every rank has connected: Gloo fails on a rank that sees another leave before it could go on."""
    if store.add("connected", 1) >= size:
        store.set("all connected", "")
    store.wait(["all connected"], timeout)
