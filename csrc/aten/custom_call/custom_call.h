// The parts of every custom call from PyTorch: finding the kernel, its operands, and its errors.
//
// A custom call launches a user's kernel (mydev/custom_call.h) once, on the current stream of its operands' device.
// Operands are borrowed until the launch returns; nothing here waits. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "aten/core/device_type.h"
#include "aten/core/error.h"
#include "aten/launch/native_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/signature.h"
#include "runtime/base/api.h"
#include "runtime/base/device_name.h"

namespace mydev {

// A kernel by name, looked up again when the registry has changed.
class CustomKernel {
 public:
  explicit CustomKernel(std::string name);
  CustomKernel(const CustomKernel&) = delete;
  CustomKernel& operator=(const CustomKernel&) = delete;

  struct Resolved {
    const mydev_kernel* record;    // the registry's, which has the compiled signature
    const Launchable* launchable;  // what this device runs: the record, or the driver's own
  };
  const std::string& name() const noexcept { return name_; }
  // Raises NOT_FOUND, or UNIMPLEMENTED if this device cannot run it.
  const Resolved& on(int device) {
    if (generation_.load(std::memory_order_acquire) == registry_generation()) [[likely]] {
      if (const Resolved* found = resolved_[static_cast<size_t>(device)].load(std::memory_order_acquire)) [[likely]] {
        return *found;
      }
    }
    return resolve(device);
  }
  void count_dense_copy() noexcept { dense_copies_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const Resolved& resolve(int device);

  const std::string name_;
  std::mutex mutex_;
  std::atomic<uint64_t> generation_{0};
  std::array<std::atomic<const Resolved*>, kMaxDevices> resolved_{};  // never freed: calls may be reading
  std::atomic<uint64_t>& dense_copies_;
};

// Operands that calls of the kernel had to make contiguous.
MYDEV_API uint64_t dense_copies(const std::string& kernel);

// Whether the kernel wants this input as it is, whatever its strides.
inline bool takes_strides(const mydev_kernel& kernel, size_t input) {
  if (kernel.kind != MYDEV_KIND_FRAME || kernel.signature == nullptr) return false;
  const uint32_t operand = operand_of_input(*kernel.signature, static_cast<uint32_t>(input));
  return (kernel.signature->operands[operand]->flags & MYDEV_OPERAND_STRIDED) != 0;
}

// The buffers of one call: first its results, then its operands. The tensors must stay alive until the launch.
class CustomFrame {
 public:
  explicit CustomFrame(size_t num_results);

  void add(const at::Tensor& tensor) { buffers_.push_back(buffer_of(tensor)); }
  void add_absent() { buffers_.push_back(absent_buffer(MYDEV_DTYPE_INVALID)); }
  void set_result(size_t i, const at::Tensor& tensor) { buffers_[i] = buffer_of(tensor); }
  mydev_buffer& result(size_t i) { return buffers_[i]; }
  mydev_buffer& operand(size_t i) { return buffers_[num_results_ + i]; }

  mydev_frame frame(std::span<const mydev_attribute> attributes) const noexcept {
    return make_frame({buffers_.data(), buffers_.size()}, static_cast<uint32_t>(num_results_), attributes);
  }
  // Launches the kernel with the scratch memory that it asks for.
  void launch(const CustomKernel::Resolved& kernel, std::span<const mydev_attribute> attributes, int device) const;

 private:
  size_t num_results_;
  c10::SmallVector<mydev_buffer, 8> buffers_;
};

// The device of the operands; -1 if there are none. Raises, with the operand, unless all defined tensors are on one
// device of ours, strided, and of a dtype that kernels know. `operand_name(i)` says what messages call an operand.
template <typename OperandName>
int common_device(const std::string& kernel, c10::ArrayRef<at::Tensor> operands, const OperandName& operand_name) {
  int device = -1;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].defined()) continue;
    TORCH_CHECK(operands[i].is_privateuseone(), kernel, ": operand '", operand_name(i), "' is on ",
                operands[i].device(), "; the kernel runs on ", device_name(), ": move it with .to(\"", device_name(),
                "\")");
    const int index = operands[i].device().index();
    if (device != -1 && device != index) {
      raise_device_mismatch(kernel, torch_device(device), operand_name(i), operands[i].device());
    }
    device = index;
    TORCH_CHECK_VALUE(operands[i].layout() == c10::kStrided, kernel, ": operand '", operand_name(i), "' is ",
                      operands[i].layout(), "; kernels are given strided tensors: give its parts, or .to_dense()");
    TORCH_CHECK_VALUE(has_frame_type(operands[i]), kernel, ": operand '", operand_name(i), "' is ",
                      operands[i].scalar_type(), ", a dtype that no kernel can be given");
  }
  return device;
}

}  // namespace mydev
