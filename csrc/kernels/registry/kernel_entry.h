// How a kernel of this layer ends: exceptions stop here, their message goes to the runtime.
#pragma once

#include <exception>

#include "mydev/custom_call.h"
#include "runtime/base/status.h"

namespace mydev::kernels {

// Gives the message to the runtime; returns the code.
mydev_code fail(const mydev_frame& frame, mydev_code code, const char* message) noexcept;

// Runs body(); a mydev::Error (or any exception) becomes the kernel's code and message.
template <typename Body>
mydev_code run_entry(const mydev_frame& frame, Body&& body) noexcept {
  try {
    body();
    return MYDEV_OK;
  } catch (const Error& error) {
    return fail(frame, error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(frame, MYDEV_INTERNAL, error.what());
  }
}

}  // namespace mydev::kernels
