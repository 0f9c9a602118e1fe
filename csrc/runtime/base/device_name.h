// The one place in C++ where the device's name is written. A vendor who ships this backend under another name changes
// this line, and the name in torch_mydev/_device_name.py.
#pragma once

#define MYDEV_DEVICE_NAME "mydev"
