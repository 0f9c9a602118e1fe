"""Tensors between processes: how torch.multiprocessing sends tensors of the device.

A storage that is shared, by ``share_memory_()`` or by being sent, moves into one of torch's own shared-memory files,
the kind that CPU tensors use, and stays there; every process that gets it maps the same file. So both sharing
strategies work, memory lives as long as one process has it, and ordinary memory is as fast as ever. It needs a driver
whose kernels work on any memory of the process (``get_device_properties().unified_memory``); others raise RuntimeError
at the sender, or at the receiver if a queue sends. A queue's thread would print the error and send nothing, and the
receiver would wait forever.

A storage that this process has already, because it sent it or received it before, is recognized when it comes again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import torch
from torch.multiprocessing import reductions

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import init, synchronize

_lock = threading.Lock()
_QUEUES_THREAD = "QueueFeederThread"  # as multiprocessing.Queue names it


def register_reductions() -> None:
    """Tells torch.multiprocessing's pickler how storages of the device travel; other devices' are left to torch."""
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)


def share(storage: torch.UntypedStorage) -> None:
    """Moves a storage of the device into shared memory. One without bytes, or that is there already, stays."""
    with _lock:
        if storage.nbytes() == 0 or is_shared(storage):
            return
        host: torch.UntypedStorage = torch.UntypedStorage._new_shared(storage.nbytes())  # type: ignore[no-untyped-call]
        _C.move_to_shared_memory(storage, host)
        _remember(host, storage)


def is_shared(storage: torch.UntypedStorage) -> bool:
    """Whether a storage of the device lies in shared memory; one without bytes counts as shared."""
    return storage.nbytes() == 0 or _C.shared_host_storage(storage) is not None


def reduce_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Reducer of storages, called when one is sent. Waits for the device, so that the receiver finds finished work."""
    if storage.device.type != DEVICE_NAME:
        return reductions.reduce_storage(storage)  # type: ignore[no-untyped-call, no-any-return]
    try:
        share(storage)
    except RuntimeError as refusal:
        if threading.current_thread().name != _QUEUES_THREAD:
            raise
        return _refuse, (str(refusal),)
    synchronize(storage.device)
    if storage.nbytes() == 0:
        return _rebuild_empty, (storage.device.index,)
    return _rebuild, (_C.shared_host_storage(storage), storage.device.index)


def _rebuild(host: torch.UntypedStorage, index: int) -> torch.UntypedStorage:
    init()
    with _lock:
        known: torch.UntypedStorage | None = reductions.storage_from_cache(  # type: ignore[no-untyped-call]
            torch.UntypedStorage, _key(host, index)
        )
        if known is not None:
            return known
        storage: torch.UntypedStorage = _C.storage_over_shared_memory(host, index)
        _remember(host, storage)
        return storage


def _refuse(reason: str) -> NoReturn:
    raise RuntimeError(f"a tensor could not be sent through a queue: {reason}")


def _rebuild_empty(index: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(0, device=torch.device(DEVICE_NAME, index))  # type: ignore[no-untyped-call]


# torch keeps the host storages that a process knows in shared_cache, and drops those that are gone; the device's are
# kept there too. A live one holds its host storage, whose address is therefore not used for another.
def _key(host: torch.UntypedStorage, index: int) -> tuple[str, int, int]:
    return DEVICE_NAME, index, host._cdata


def _remember(host: torch.UntypedStorage, storage: torch.UntypedStorage) -> None:
    reductions.shared_cache[_key(host, storage.device.index)] = reductions.StorageWeakRef(storage)  # type: ignore[no-untyped-call]
