// The device's name, as frameworks and messages have it. It comes with the driver (choose_driver): a vendor's package
// names its device; with any other driver the device is `mydev`. It is set before a framework asks for it, and never
// changes after that. Thread-safe.
#pragma once

#include <string>

#include "runtime/base/api.h"

namespace mydev {

MYDEV_API const char* device_name() noexcept;

// "mydev:1"
MYDEV_API std::string device_text(int index);

// Returns false, and changes nothing, if another name was set before.
MYDEV_API bool set_device_name(const std::string& name);

}  // namespace mydev
