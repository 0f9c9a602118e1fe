// Kernel group swiglu: the gated unit of transformer feed-forward layers, silu(gate) * up, and its derivatives.
#include <cmath>

#include "host_kernels/isa/simd/tensor_list.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename T>
T* data(const mydev_buffer& buffer) {
  return static_cast<T*>(buffer.data);
}

template <typename T>
T logistic(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

template <typename T>
mydev_code forward(const mydev_frame& frame) {
  T* out = data<T>(frame.buffers[0]);
  const T* gate = data<T>(frame.buffers[1]);
  const T* up = data<T>(frame.buffers[2]);
  parallel_for(element_count(frame.buffers[0]), kGrainHeavy, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = gate[i] * logistic(gate[i]) * up[i];
  });
  return MYDEV_OK;
}

template <typename T>
mydev_code backward(const mydev_frame& frame) {
  T* grad_gate = data<T>(frame.buffers[0]);
  T* grad_up = data<T>(frame.buffers[1]);
  const T* grad = data<T>(frame.buffers[2]);
  const T* gate = data<T>(frame.buffers[3]);
  const T* up = data<T>(frame.buffers[4]);
  parallel_for(element_count(frame.buffers[0]), kGrainHeavy, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T s = logistic(gate[i]);
      grad_gate[i] = grad[i] * up[i] * s * (T(1) + gate[i] * (T(1) - s));
      grad_up[i] = grad[i] * gate[i] * s;
    }
  });
  return MYDEV_OK;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.swiglu", f32_or_f64_entry<forward<float>, forward<double>>),
    kernel_record("mydev.swiglu_backward", f32_or_f64_entry<backward<float>, backward<double>>),
};

}  // namespace

std::span<const mydev_kernel> swiglu() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
