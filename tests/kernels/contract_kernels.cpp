// A library of kernels whose signatures are contracts. Only the public header.
#include <cmath>
#include <cstdint>

#include "mydev/custom_call.h"

namespace {

// Calls f with pointers to the elements of buffers of one shape, with any strides.
template <typename T, typename F>
void for_each(const mydev_frame& frame, const F& f) {
  const mydev_buffer &out = frame.buffers[0], &a = frame.buffers[1], &b = frame.buffers[2];
  int64_t count = 1;
  for (int32_t d = 0; d < out.rank; ++d) count *= out.sizes[d];
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, places[3] = {};
    for (int32_t d = out.rank; d-- > 0; rest /= out.sizes[d]) {
      const int64_t index = rest % out.sizes[d];
      for (int k = 0; k < 3; ++k) places[k] += index * frame.buffers[k].strides[d];
    }
    static_cast<T*>(out.data)[places[0]] =
        f(static_cast<const T*>(a.data)[places[1]], static_cast<const T*>(b.data)[places[2]]);
  }
}

template <typename T>
void gate_of(const mydev_frame& frame) {
  const double scale = frame.attributes[0].value.f;
  for_each<T>(frame, [scale](T x, T gate) {
    return static_cast<T>(static_cast<double>(x) * std::tanh(static_cast<double>(gate) * scale));
  });
}

mydev_code gate(const mydev_frame* frame) {
  if (frame->buffers[0].dtype == MYDEV_F16) {
    gate_of<_Float16>(*frame);
  } else if (frame->buffers[0].dtype == MYDEV_F32) {
    gate_of<float>(*frame);
  } else {
    gate_of<double>(*frame);
  }
  return MYDEV_OK;
}

mydev_code outer(const mydev_frame* frame) {
  const mydev_buffer &a = frame->buffers[1], &b = frame->buffers[2];
  for (int64_t i = 0; i < a.sizes[0]; ++i) {
    for (int64_t j = 0; j < b.sizes[0]; ++j) {
      static_cast<float*>(frame->buffers[0].data)[i * b.sizes[0] + j] =
          static_cast<const float*>(a.data)[i] * static_cast<const float*>(b.data)[j];
    }
  }
  return MYDEV_OK;
}

// The largest of each `width` elements that follow each other.
mydev_code pool(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &x = frame->buffers[1];
  const int64_t width = frame->attributes[0].value.i;
  for (int64_t i = 0; i < out.sizes[0]; ++i) {
    float most = -INFINITY;
    for (int64_t j = 0; j < width; ++j) most = std::fmax(most, static_cast<const float*>(x.data)[i * width + j]);
    static_cast<float*>(out.data)[i] = most;
  }
  return MYDEV_OK;
}

constexpr char kGate[] = "(out T) <- (x T, gate T; scale: float = 2)";
constexpr char kGateTypes[] = "T: f16 f32 f64";

const mydev_signature kSignatures[] = {
    {.struct_size = sizeof(mydev_signature),
     .contract = kGate,
     .types = kGateTypes,
     .expression = "x * tanh(gate * scale)"},
    {.struct_size = sizeof(mydev_signature), .contract = kGate, .types = kGateTypes, .expression = "x * tanh(gate)"},
    {.struct_size = sizeof(mydev_signature), .contract = "dense (out f32[n,m]) <- (a f32[n], b f32[m])"},
    {.struct_size = sizeof(mydev_signature),
     .contract = "dense (out f32[k]) <- (x f32[n]; width: int 1..) where k = trunc_div(n, width)"},
};

mydev_kernel kernel(const char* name, mydev_kernel_fn entry, const mydev_signature& signature) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = name;
  kernel.entry = entry;
  kernel.signature = &signature;
  return kernel;
}

const mydev_kernel kKernels[] = {
    kernel("contract.gate", gate, kSignatures[0]),
    kernel("contract.wrong_gate", gate, kSignatures[1]),
    kernel("contract.outer", outer, kSignatures[2]),
    kernel("contract.pool", pool, kSignatures[3]),
};
const mydev_kernel* const kTable[] = {&kKernels[0], &kKernels[1], &kKernels[2], &kKernels[3]};
const mydev_library kLibrary = {sizeof(mydev_library),
                                MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                "contract_kernels",
                                "1.0",
                                kTable,
                                4};

}  // namespace

extern "C" MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t) {
  return version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? &kLibrary : nullptr;
}
