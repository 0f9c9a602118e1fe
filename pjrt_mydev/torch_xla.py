"""The plugin for PyTorch/XLA: ``PJRT_DEVICE=MYDEV`` chooses it.

torch_xla loads this by its entry point (group ``torch_xla.plugins``) while it is imported itself. Devices are those of
the driver that the environment variable ``MYDEV_DRIVER`` names, all of them in one process: ``torch_xla.launch`` starts
a thread for each.
"""

from __future__ import annotations

import os

from torch_xla.experimental import plugins

from pjrt_mydev._library import check_library, device_name, library_path


class MyDevPlugin(plugins.DevicePlugin):  # type: ignore[misc]  # torch_xla has no types
    """What torch_xla asks of a device's plugin."""

    def library_path(self) -> str:
        """Path of the library, which loads. Asked for once, before the first device is used."""
        path = library_path()
        check_library(path)
        # Programs come as StableHLO then, in place of HLO. torch_xla reads the variable when it compiles.
        os.environ["XLA_STABLEHLO_COMPILE"] = "1"
        return str(path)

    def configure_single_process(self) -> None:
        """Nothing: one process uses the devices that it finds."""

    def configure_multiprocess(self, local_rank: int, local_world_size: int) -> None:
        """Raises RuntimeError for several processes: each would take all devices, and hear nothing of the others."""
        if local_world_size > 1:
            raise RuntimeError(
                f"{device_name()} is used by one process, and this is one of {local_world_size}: start one, with "
                f"torch_xla.launch(function), which runs it in a thread for each device"
            )

    def physical_chip_count(self) -> int:
        """How many processes `torch_xla.launch` starts."""
        return 1
