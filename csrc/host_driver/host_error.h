// Errors inside the driver, by the names that all drivers have.
#pragma once

#include "driver_support/errors.h"

namespace mydev::host_driver {

using namespace driver_support;  // NOLINT(google-build-using-namespace)

}  // namespace mydev::host_driver
