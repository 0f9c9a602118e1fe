// Code that finds a wrong setting can keep the process's driver from being loaded.
#pragma once

#include <string>

#include "runtime/base/api.h"

namespace mydev {

// Makes calls that need the driver raise this reason from now on. Does nothing if the driver was needed before.
MYDEV_API void refuse_driver(std::string reason);

}  // namespace mydev
