// A library of kernels in C++17 that sees nothing but the public header. Its record is that of a shorter version:
// nothing after `driver_data` is there.
#include <cstddef>

#include "mydev/custom_call.h"

namespace {

mydev_code negate(const mydev_frame* frame) {
  const auto* in = static_cast<const float*>(frame->buffers[1].data);
  auto* out = static_cast<float*>(frame->buffers[0].data);
  for (int64_t i = 0; i < frame->buffers[0].sizes[0]; ++i) out[i] = -in[i];
  return MYDEV_OK;
}

struct OldKernel {
  size_t struct_size;
  const char* name;
  mydev_kernel_fn entry;
  void* scratch_bytes;
  const char* doc;
  void* driver_data;
};
const OldKernel kNegate = {sizeof(OldKernel), "cpp.negate", negate, nullptr, "the older record", nullptr};
const mydev_kernel* const kKernels[] = {reinterpret_cast<const mydev_kernel*>(&kNegate)};
const mydev_library kLibrary = {
    sizeof(mydev_library), MYDEV_CUSTOM_CALL_VERSION_MAJOR, 0, "cpp library", "3", kKernels, 1};

}  // namespace

extern "C" MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t /*major*/, uint32_t /*minor*/) {
  return &kLibrary;
}
