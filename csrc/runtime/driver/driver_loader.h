// Finding, checking and opening a driver.
//
// A driver is named by "<name or path>[:option,option...]". "host" is the one that lies beside this library; a name
// with a '/' or ending in ".so" is the path of a shared object. Whatever is wrong with a driver is an Error whose
// message says what, where and how to mend it. A driver that was opened stays open until the process ends.
#pragma once

#include <string>

#include "mydev/driver.h"

namespace mydev {

// Opens, checks and initializes the driver. The table lives until the process ends; entries that the driver's
// struct_size does not cover are NULL. Raises NOT_FOUND (no such driver), FAILED_PRECONDITION (not a driver, wrong
// version, entry missing), or what initialize returned.
const mydev_driver_api& load_driver(const std::string& spec);

}  // namespace mydev
