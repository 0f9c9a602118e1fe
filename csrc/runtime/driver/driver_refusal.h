// Settings that are wrong, found by whoever reads them, keep the process's driver from being loaded.
#pragma once

#include <string>

namespace mydev {

// What needs the driver from now on raises this reason. Nothing if the driver was needed before.
void refuse_driver(std::string reason);

}  // namespace mydev
