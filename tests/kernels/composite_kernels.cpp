// A library of kernels whose names are those of composites. Only the public header.
#include <atomic>
#include <cmath>
#include <cstdint>

#include "mydev/custom_call.h"

namespace {

std::atomic<int64_t> calls{0};

mydev_code gelu_bias(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &x = frame->buffers[1], &bias = frame->buffers[2];
  const auto scale = static_cast<float>(frame->attributes[0].value.f);
  const int64_t width = bias.sizes[0];
  int64_t count = 1;
  for (int32_t d = 0; d < x.rank; ++d) count *= x.sizes[d];
  for (int64_t i = 0; i < count; ++i) {
    const float sum = static_cast<const float*>(x.data)[i] + static_cast<const float*>(bias.data)[i % width];
    static_cast<float*>(out.data)[i] = scale * sum * 0.5F * (1 + std::erf(sum * static_cast<float>(M_SQRT1_2)));
  }
  ++calls;
  return MYDEV_OK;
}

// Rows of more than eight elements are declined.
mydev_code plan(const mydev_frame* frame, mydev_plan* /*out*/) {
  if (frame->buffers[2].sizes[0] <= 8) return MYDEV_OK;
  frame->host->set_error(frame, "takes rows of at most eight elements");
  return MYDEV_UNIMPLEMENTED;
}

constexpr mydev_signature kSignature = {
    .struct_size = sizeof(mydev_signature),
    .contract = "dense (out f32[n...,d]) <- (x f32[n...,d], bias f32[d]; scale: float = 1)"};
constexpr mydev_kernel kGeluBias = {.struct_size = sizeof(mydev_kernel),
                                    .name = "acme.gelu_bias",
                                    .entry = gelu_bias,
                                    .doc = "scale * gelu(x + bias)",
                                    .signature = &kSignature,
                                    .plan = plan};
const mydev_kernel* const kKernels[] = {&kGeluBias};
const mydev_library kLibrary = {.struct_size = sizeof(mydev_library),
                                .version_major = MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                .version_minor = MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                .name = "composites",
                                .version = "1.0",
                                .kernels = kKernels,
                                .num_kernels = 1};

}  // namespace

extern "C" {
MYDEV_EXPORT int64_t composite_calls(void) {
  return calls.load();
}

MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t /*version_minor*/) {
  return version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? &kLibrary : nullptr;
}
}
