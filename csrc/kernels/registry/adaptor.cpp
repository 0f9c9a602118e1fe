#include "kernels/registry/adaptor.h"

#include <string>

#include "kernels/registry/kernel_entry.h"

namespace mydev {

mydev_code refuse_strided(const mydev_frame& frame) noexcept {
  uint32_t index = 0;
  while (is_dense(frame.buffers[index])) ++index;
  const bool output = index < frame.num_outputs;
  const std::string what =
      output ? "result " + std::to_string(index) : "operand " + std::to_string(index - frame.num_outputs);
  return kernels::fail(
      frame, MYDEV_INVALID_ARGUMENT,
      (what + " is not dense in row-major order; kernels of XLA's kinds see no strides: make it contiguous").c_str());
}

}  // namespace mydev
