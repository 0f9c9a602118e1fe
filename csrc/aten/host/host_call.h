// One call of a CPU kernel for device tensors: the operands' staging tensors (staging.h), and the way back for what it
// wrote and returned. The call is counted in the census.
//
//   HostCall call(record);
//   Tensor a = call.operand(self, /*written=*/false);
//   { HostCall::Running running(call); result = kernel(a); }      // opens the device's memory
//   call.write_back();
//   return call.to_device(std::move(result));
//
// Operands on several devices, or CPU tensors among device tensors (other than 0-dim ones that are read, or are changed
// in place), are refused: by operand() or when the kernel is to run.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <chrono>
#include <optional>

#include "aten/core/device_type.h"
#include "aten/host/census.h"
#include "aten/host/components.h"
#include "aten/host/staging.h"
#include "aten/trace/dispatch_trace.h"

namespace mydev {

class HostCall {
 public:
  explicit HostCall(FallbackRecord& record) : record_(record), begin_(std::chrono::steady_clock::now()) {}
  ~HostCall();  // counts what the call took, copies and waiting included
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  // The operands that come next are the op's next argument; messages name it.
  void begin_argument() noexcept { ++arguments_; }
  // Lets the op take any tensor from the CPU, as indexing does; most ops take only scalars from there.
  void allow_cpu_operands() { cpu_operands_allowed_ = true; }

  // The staging tensor of `tensor`, the same for each argument that is this tensor; itself if it is not on the device.
  // `written`: the kernel writes it, and may resize it or give it another storage.
  at::Tensor operand(const at::Tensor& tensor, bool written);
  c10::Storage operand(const c10::Storage& storage);
  // Returns a CPU generator that continues the device's random state. Call it after all other operands and set_device:
  // the generator must be of the call's device type.
  at::Generator operand(const at::Generator& generator);
  at::Generator default_generator();

  // The device of the call: that of its operands, else as set, else the current one.
  c10::Device device() const;
  void set_device(c10::Device device) {
    if (device.has_index()) device_ = device;
    if (device.type() == kDeviceType) names_device_ = true;
  }

  // Call it once, after the kernel and before to_device.
  void write_back();
  // Returns the tensor that the caller must see for a result: the operand itself, a view of an operand, or a fresh
  // tensor. `is_view`: the schema says that the result is a view of an operand.
  at::Tensor to_device(at::Tensor result, bool is_view = false);

  // The time in which the kernel runs.
  class Running {
   public:
    explicit Running(HostCall& call);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    HostCall& call_;
    TraceRedispatch trace_;
    std::optional<HostScope> scope_;     // on the device's memory
    std::optional<HostWork> on_copies_;  // or on copies
    std::optional<c10::impl::ExcludeDispatchKeyGuard> below_autograd_;
  };

 private:
  struct Operand : StagingTensor {
    bool written;
  };
  bool aliasing() const;
  bool is_in_place() const;
  [[noreturn]] void refuse(size_t argument, c10::Device found) const;  // an operand on another device
  void check_not_captured() const;
  void mark_requires_grad();
  at::Tensor composed_operand(const at::Tensor& tensor, bool written);
  Components components_to_device(const at::Tensor& host);
  c10::Storage device_storage_for(c10::StorageImpl* host);
  void write_back_alias(Operand& operand);

  FallbackRecord& record_;
  const std::chrono::steady_clock::time_point begin_;
  bool entered_ = false;  // the census counts the call
  c10::SmallVector<Operand, 4> operands_;
  c10::SmallVector<Operand, 1> composed_operands_;  // their components are among the operands, too
  DeviceStorages storages_;                         // other than the operands'
  c10::SmallVector<const c10::StorageImpl*, 2> cpu_storages_;
  c10::Device device_{c10::DeviceType::PrivateUse1, -1};
  bool names_device_ = false;
  size_t arguments_ = 0;                // that were begun
  std::optional<size_t> cpu_argument_;  // one that is no scalar
  bool cpu_operands_allowed_ = false;
  HostCopies copies_;
  uint64_t bytes_copied_back_ = 0;
  std::chrono::steady_clock::time_point kernel_begin_, kernel_end_;  // on copies
};

}  // namespace mydev
