"""The plugin for PyTorch/XLA: ``PJRT_DEVICE=MYDEV`` chooses it, or the name of a driver's package, in capitals.

torch_xla loads this by its entry point (group ``torch_xla.plugins``) while it is imported itself. Devices are those of
the driver that the environment variable ``MYDEV_DRIVER`` names: all of them in one process, with a thread for each, or
one in each of several processes.
"""

from __future__ import annotations

import os
from importlib.metadata import version

import torch
import torch_xla.core.xla_env_vars as xenv
from torch_xla.experimental import plugins

from mydev.drivers import chosen
from pjrt_mydev._library import check_library, device_name, library_path

TORCH_XLA = "2.9"  #: what programs and plugins are read and tested as


def check_versions() -> None:
    """Raises RuntimeError where torch_xla or torch is of another version: it may ask for what is not known here."""
    found = {package: version(package) for package in ("torch_xla", "torch")}
    wrong = [package for package, text in found.items() if ".".join(text.split(".")[:2]) != TORCH_XLA]
    if wrong:
        raise RuntimeError(
            f"{device_name()} is for torch_xla {TORCH_XLA} with torch {TORCH_XLA}, and this process has torch_xla "
            f"{found['torch_xla']} with torch {found['torch']}; pip install --no-deps torch=={TORCH_XLA}.0 "
            f"torch_xla=={TORCH_XLA}.0"
        )


def _number(*variables: str, default: int) -> int:
    """The value of the first of these environment variables that is set. Raises ValueError if it is no number."""
    for name in variables:
        text = os.environ.get(name)
        if text:
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"{name}={text} is no number; torchrun and torch_xla.launch set it") from None
    return default


# These read the variables as torch_xla's own coordinator does, through which the processes find each other.
def _local_rank() -> int:
    return _number(xenv.PJRT_LOCAL_PROCESS_RANK, "LOCAL_RANK", default=0)


def _local_count() -> int:
    return _number(xenv.PJRT_LOCAL_PROCESS_COUNT, "LOCAL_WORLD_SIZE", default=1)


def _rank() -> int:
    return _number("RANK", default=_local_rank())


def _count() -> int:
    return _number("WORLD_SIZE", default=_local_count())


def _keep_process_groups_by_thread() -> None:
    """Replaces the state of torch.distributed by the one that it has for tests with a thread for each rank.

    Reason: a thread that calls init_process_group after another has done so is refused: "trying to initialize the
    default process group twice". torch_xla does the same for the devices of which it knows that they use threads.
    Remove when torch_xla asks the plugin, or does it for each device.
    """
    from torch.distributed import distributed_c10d
    from torch.testing._internal.distributed.multi_threaded_pg import ThreadLocalWorld

    if not isinstance(distributed_c10d._world, ThreadLocalWorld):
        distributed_c10d._world = ThreadLocalWorld()  # type: ignore[assignment]  # has the same attributes
        torch._C._distributed_c10d._set_thread_isolation_mode(True)  # type: ignore[attr-defined]  # of groups' names


class MyDevPlugin(plugins.DevicePlugin):  # type: ignore[misc]  # torch_xla has no types
    """The answers to what torch_xla asks a device's plugin."""

    def library_path(self) -> str:
        """Path of the library, which loads. Asked for once, before the first device is used. Raises RuntimeError."""
        check_versions()
        path = library_path()
        check_library(path)
        # Programs come as StableHLO then, in place of HLO. torch_xla reads the variable when it compiles.
        os.environ["XLA_STABLEHLO_COMPILE"] = "1"
        return str(path)

    def configure_single_process(self) -> None:
        """Does nothing: one process uses the devices that it finds."""

    def configure_multiprocess(self, local_rank: int, local_world_size: int) -> None:
        """If one process has a thread for each device, gives the threads process groups of their own.

        Does nothing for several processes: torch_xla and torchrun have set in the environment which one this is.
        """
        if local_world_size == 1:
            _keep_process_groups_by_thread()

    def requires_xla_coordinator(self) -> bool:
        """Whether there are several processes, which find each other through torch_xla's coordinator.

        torch_xla asks before anything waits for them. Raises ValueError for invalid ranks: waiting would be in vain.
        """
        if _local_rank() < 0 or not 0 <= _rank() < _count():
            raise ValueError(f"process {_rank()} of {_count()}, of local rank {_local_rank()}, is none")
        return _count() > 1

    def client_create_options(self) -> dict[str, int]:
        """The rank of this process, the number of processes, and its device; empty if it is the only process."""
        if _count() == 1:
            return {}
        return {"node_id": _rank(), "num_nodes": _count(), "device_ordinal": _local_rank()}

    def physical_chip_count(self) -> int:
        """How many processes `torch_xla.launch` starts: one, or as many as PJRT_LOCAL_PROCESS_COUNT says."""
        return _number(xenv.PJRT_LOCAL_PROCESS_COUNT, default=1)

    def host_index(self) -> int:
        """The index of this host among torchrun's hosts."""
        return _number("GROUP_RANK", default=0)


# torch_xla itself registers the plugin by the name of our entry point, MYDEV.
if chosen().package:
    plugins.register_plugin(device_name().upper(), MyDevPlugin())
