"""The device's name in this process: that of the driver's package, or ``mydev``. The C++ layers are told the same."""

from mydev.drivers import chosen

DEVICE_NAME = chosen().device_name
