#include "kernels/registry/adaptor.h"

#include <array>
#include <string>

#include "kernels/registry/kernel_entry.h"

namespace mydev {

namespace {

// By kind. Written while this library is loaded, then only read.
constinit std::array<MakeAdaptor, MYDEV_KIND_UNIFIED_DEVICE + 1> adaptors{};

}  // namespace

bool install_adaptor(int32_t kind, MakeAdaptor make) noexcept {
  adaptors[static_cast<size_t>(kind)] = make;
  return true;
}

std::unique_ptr<Adaptor> make_adaptor(mydev_kernel& kernel) {
  return adaptors[static_cast<size_t>(kernel.kind)](kernel);
}

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
