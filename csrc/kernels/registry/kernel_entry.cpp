#include "kernels/registry/kernel_entry.h"

namespace mydev::kernels {

mydev_code fail(const mydev_frame& frame, mydev_code code, const char* message) noexcept {
  if (frame.host != nullptr) frame.host->set_error(&frame, message);
  return code;
}

}  // namespace mydev::kernels
