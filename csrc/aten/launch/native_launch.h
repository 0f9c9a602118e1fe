// From tensors to launches: the parts of every native op.
//
//   static KernelRef kernel("mydev.relu");
//   const Launchable* k = kernel.on(self);          // nullptr: this device has none; use the fallback
//   Tensor out = empty_dense(self.sizes(), self.options());
//   OpFrame<2> frame;
//   frame.add(out).add(self);                         // outputs first
//   frame.launch(*k, 1);
//
// A launch runs on the current stream of the operands' device. Nothing here waits. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <span>

#include "aten/core/device_type.h"
#include "aten/core/operator_policy.h"
#include "aten/launch/buffer.h"
#include "kernels/launch/kernel_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/base/api.h"
#include "runtime/command/launch.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

// Whether an operator asks the kernel for operands of these dtypes (Launchable::dtypes).
inline bool is_asked(const Launchable& kernel, uint64_t dtypes, int device) {
  return (dtypes & ~kernel.dtypes) == 0 ||
         ((dtypes & ~kernel.dtypes_in_graphs) == 0 && current_stream(device).capture() != nullptr);
}

// A kernel of the registry by name, resolved once per device.
class MYDEV_API KernelRef {
 public:
  // `runs`: a row of aten/core/operator_policy.h, if the host's record is not to run anywhere.
  constexpr explicit KernelRef(const char* name, BuiltinRuns runs = BuiltinRuns::kAnywhere) noexcept
      : name_(name), runs_(runs) {}
  const char* name() const noexcept { return name_; }

  // Returns what to launch on this device; nullptr if it has nothing. While the current stream captures, the host's
  // record is there for every device.
  const Launchable* on(int device) {
    const Launchable* kernel = resolved_[static_cast<size_t>(device)].load(std::memory_order_acquire);
    return kernel != nullptr ? kernel : resolve(device);
  }
  const Launchable* on(const at::TensorBase& tensor) { return on(tensor.device().index()); }
  // The same for operands of the tensor's dtype: nullptr also where no kernel is asked for that.
  const Launchable* for_operand(const at::TensorBase& tensor) {
    const Launchable* kernel = on(tensor);
    const int device = tensor.device().index();
    return kernel != nullptr && is_asked(*kernel, dtype_bit(tensor.scalar_type()), device) ? kernel : nullptr;
  }
  // Whether on() returns a record only while a graph is captured. Elsewhere the operator has another way, which is
  // better in a graph, too, if a stream can be given it.
  bool is_for_graphs(int device) {
    on(device);
    return absences_[static_cast<size_t>(device)].load(std::memory_order_acquire) == Absence::kUnlessCaptured;
  }

 private:
  const Launchable* resolve(int device);
  enum class Absence : uint8_t { kUnknown, kAlways, kUnlessCaptured };

  const char* name_;
  BuiltinRuns runs_;
  std::array<std::atomic<const Launchable*>, kMaxDevices> resolved_{};
  std::array<std::atomic<Absence>, kMaxDevices> absences_{};  // of kernels that are not resolved
};

// --- outputs ---------------------------------------------------------------------------------------------------------

// A fresh contiguous tensor, made without the dispatcher.
MYDEV_API at::Tensor empty_dense(c10::IntArrayRef sizes, c10::ScalarType dtype, c10::Device device);
inline at::Tensor empty_dense(c10::IntArrayRef sizes, const at::TensorBase& like) {
  return empty_dense(sizes, like.scalar_type(), like.device());
}
// Whether the strides are those of a fresh tensor. A contiguous tensor may have others if a dimension has one element,
// or none.
bool has_standard_strides(const at::TensorBase& tensor);
// Returns a tensor laid out as the CPU's empty_like: as `like` if that has no gaps, else with its dimensions in the
// same order.
at::Tensor empty_laid_out_as(const at::TensorBase& like, c10::ScalarType dtype);
at::Tensor empty_strided_on(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                            c10::Device device);
// A tensor that is dense in a memory format.
at::Tensor empty_in_format(c10::IntArrayRef sizes, c10::MemoryFormat format, c10::ScalarType dtype, c10::Device device);

// --- frames ----------------------------------------------------------------------------------------------------------

// Launches over buffers and attributes that the caller laid out. Throws KernelDeclined, with nothing done, if all of
// the device's records for the kernel decline; native_or_host.h makes that a fallback. A plain record without scratch
// takes every frame of its name, and is launched without a call.
inline void launch_on(const Launchable& kernel, std::span<const mydev_buffer> buffers, uint32_t num_outputs,
                      std::span<const mydev_attribute> attributes, Stream& stream) {
  mydev_frame frame = make_frame(buffers, num_outputs, attributes);
  if (kernel.at_once != nullptr) {
    launch(*kernel.at_once, frame, stream);
  } else {
    launch_kernel(kernel, frame, stream);
  }
}

// The same on the current stream of the device of a tensor.
inline void launch_on(const Launchable& kernel, const at::TensorBase& tensor, uint32_t num_outputs,
                      c10::ArrayRef<mydev_buffer> buffers, c10::ArrayRef<mydev_attribute> attributes = {}) {
  launch_on(kernel, {buffers.data(), buffers.size()}, num_outputs, {attributes.data(), attributes.size()},
            current_stream(tensor.device().index()));
}

// Up to kBuffers operands and kAttributes attributes, sizes and strides borrowed from the tensors: they must stay alive
// and unchanged until launch() returns.
template <int kBuffers, int kAttributes = 4>
class OpFrame {
 public:
  OpFrame& add(const at::TensorBase& tensor) {
    buffers_[static_cast<size_t>(count_)] = input_buffer_of(tensor);
    tensors_[static_cast<size_t>(count_)] = tensor.unsafeGetTensorImpl();
    if (count_++ == 0) device_ = tensor.device().index();
    return *this;
  }
  OpFrame& add_absent(mydev_dtype dtype) {
    tensors_[static_cast<size_t>(count_)] = nullptr;
    buffers_[static_cast<size_t>(count_++)] = absent_buffer(dtype);
    return *this;
  }
  OpFrame& add_optional(const std::optional<at::Tensor>& tensor, mydev_dtype dtype) {
    return tensor.has_value() && tensor->defined() ? add(*tensor) : add_absent(dtype);
  }
  OpFrame& attribute(const mydev_attribute& attribute) {
    attributes_[static_cast<size_t>(num_attributes_++)] = attribute;
    return *this;
  }
  // The first operand must be on the device.
  void launch(const Launchable& kernel, uint32_t num_outputs) {
    make_writable({buffers_.data(), static_cast<size_t>(count_)}, num_outputs, tensors_.data());
    launch_on(kernel, {buffers_.data(), static_cast<size_t>(count_)}, num_outputs,
              {attributes_.data(), static_cast<size_t>(num_attributes_)}, current_stream(device_));
  }

 private:
  std::array<mydev_buffer, kBuffers> buffers_;
  std::array<c10::TensorImpl*, kBuffers> tensors_;  // nullptr for absent ones
  std::array<mydev_attribute, kAttributes> attributes_;
  int count_ = 0;
  int num_attributes_ = 0;
  int device_ = 0;
};

}  // namespace mydev
