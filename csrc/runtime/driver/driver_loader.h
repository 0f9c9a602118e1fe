// Finding, checking and opening a driver.
//
// A driver is named by "<name or path>[:option,option...]". "host" is the driver that lies beside this library. A name
// with a '/' or ending in ".so" is the path of a shared object. "validate:<driver>" is that driver behind the
// validation layer, of which there is one in a process. Any fault of a driver raises an Error whose message says what
// is wrong, where, and how to mend it. A driver that was opened stays open until the process ends.
#pragma once

#include <string>
#include <vector>

#include "mydev/driver.h"
#include "runtime/base/api.h"
#include "runtime/driver/driver_extensions.h"

namespace mydev {

struct OpenDriver {
  mydev_driver_api api{};  // entries that the driver's struct_size does not cover are NULL
  std::vector<DriverExtension> extensions;
};

// Opens, checks and initializes the driver, which lives until the process ends. Raises NOT_FOUND (no such driver),
// FAILED_PRECONDITION (not a driver, wrong version, entry or table of an extension missing), or what initialize
// returned.
MYDEV_API const OpenDriver& load_driver(const std::string& spec);

namespace detail {
// Puts the functions of the validation layer before the driver's in its table. They and the line of Python that they
// name lie above this folder (validation/validation.h). Called before initialize.
MYDEV_API void validate_driver(mydev_driver_api& table);
}  // namespace detail

}  // namespace mydev
