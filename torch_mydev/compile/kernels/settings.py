"""Inductor's settings for the device, such as ``torch.compile(options={"mydev.kernel_generation": "raise"})`` changes.

torch routes options by the device's name from 2.15 on, and makes them part of the key of Inductor's cache.
"""

import sys

from torch.utils._config_module import install_config_module

#: "programs" or "raise" for this compilation; "" is what MYDEV_KERNEL_GENERATION says.
kernel_generation: str = ""

install_config_module(sys.modules[__name__])
