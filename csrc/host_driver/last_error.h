// Errors of the driver's entries: an entry returns a code, and last_error gives the message, which each thread keeps.
#pragma once

#include <exception>
#include <new>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

// Keeps the message of this thread's latest failure; returns the code.
mydev_code fail(mydev_code code, const char* message);
const char* last_error();

// Runs body and turns what it raises into a code: nothing is thrown across the C boundary.
template <typename Body>
mydev_code run_checked(const Body& body) noexcept {
  try {
    body();
    return MYDEV_OK;
  } catch (const HostError& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(MYDEV_RESOURCE_EXHAUSTED, "out of host memory");
  } catch (const std::exception& error) {
    return fail(MYDEV_INTERNAL, error.what());
  }
}

}  // namespace mydev::host_driver
