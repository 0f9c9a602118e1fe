"""The plugin for PyTorch/XLA: ``PJRT_DEVICE=MYDEV`` chooses it.

torch_xla loads this by its entry point (group ``torch_xla.plugins``) while it is imported itself. Devices are those of
the driver that the environment variable ``MYDEV_DRIVER`` names, all of them in one process: ``torch_xla.launch`` starts
a thread for each.
"""

from __future__ import annotations

import os
from importlib.metadata import version

from torch_xla.experimental import plugins

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


class MyDevPlugin(plugins.DevicePlugin):  # type: ignore[misc]  # torch_xla has no types
    """What torch_xla asks of a device's plugin."""

    def library_path(self) -> str:
        """Path of the library, which loads. Asked for once, before the first device is used. Raises RuntimeError."""
        check_versions()
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
