// Errors inside the driver, by the names that all drivers have.
#pragma once

#include "driver_support/errors.h"

namespace mydev::cuda_driver {

using driver_support::DriverError;
using driver_support::fail;
using driver_support::last_error;
using driver_support::raise;
using driver_support::require;
using driver_support::run_checked;

}  // namespace mydev::cuda_driver
