"""The one place in Python where the device's name is written.

A vendor who ships this backend under another name changes this line, and the one in csrc/runtime/base/device_name.h.
"""

DEVICE_NAME = "mydev"
