// The operators torch.ops.mydev_cc.<name>: one per kernel of the registry that has a signature.
//
// All share one boxed kernel per dispatch key, which reads the signature: PrivateUse1 launches, AutogradPrivateUse1
// adds the gradient (custom_call_autograd.cpp), CPU refuses. Fake kernels and batching rules are Python's
// (torch_mydev/custom_operator.py). An operator's entry in the dispatcher is never taken out, since callers may hold
// it: when its kernel goes, calls raise; when the kernel comes back with another schema, the schema is replaced.
// Thread-safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <vector>

#include "aten/custom_call.h"

namespace mydev {

class CustomOperator {
 public:
  CustomOperator(std::string kernel, std::string name) : kernel_(std::move(kernel)), name_(std::move(name)) {}

  CustomKernel& kernel() noexcept { return kernel_; }
  const std::string& name() const noexcept { return name_; }  // "mydev_cc::scale"
  // The record that the operator stands for now. Raises NOT_FOUND once it has gone.
  const mydev_kernel& record() const;
  void set_record(const mydev_kernel* record) noexcept { record_.store(record, std::memory_order_release); }

 private:
  CustomKernel kernel_;
  const std::string name_;
  std::atomic<const mydev_kernel*> record_{nullptr};
};

// The boxed kernels.
void run_custom_operator(CustomOperator& op, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
void record_custom_operator(CustomOperator& op, const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                            torch::jit::Stack* stack);

// What sync_custom_operators did. `collision`: not defined, since `operator_name` stands for another kernel.
struct OperatorChange {
  enum Kind { kDefined, kRemoved, kCollision } kind;
  std::string kernel, operator_name;
};
// Makes the operators those of the registry; returns what changed since the last call. Does nothing, quickly, if the
// registry is as it was.
std::vector<OperatorChange> sync_custom_operators();

}  // namespace mydev
