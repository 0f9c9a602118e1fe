// The host's records for the steps of kernels whose body is data, and what their failures become.
#pragma once

#include <string>
#include <string_view>

#include "mydev/custom_call.h"

namespace mydev::kernels {

// Why a frame cannot be run.
struct Refusal {
  mydev_code code = MYDEV_OK;
  std::string text;
};

// The built-in record of that name, for this processor; nullptr: there is none.
const mydev_kernel* record_of(std::string_view name);

// Makes a failure of a step's kernel, with its message, that of the frame that is being run. Returns the code.
mydev_code pass_on(const mydev_frame& step, mydev_code code, const mydev_frame& frame);

}  // namespace mydev::kernels
