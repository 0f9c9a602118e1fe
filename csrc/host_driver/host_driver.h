// The built-in host driver: this machine's processor and memory as devices.
//
// Inline by default: a launch or copy runs on the caller's thread and is done when the call returns. With `async` each
// stream is a thread, and with `guarded` device memory is out of the host's reach between launches: the ways of real
// devices, for tests. See host_options.h.
#pragma once

#include "mydev/driver.h"

namespace mydev {

// What a driver's mydev_driver_query returns.
const mydev_driver_api* host_driver_query(uint32_t version_major, uint32_t version_minor) noexcept;

}  // namespace mydev
