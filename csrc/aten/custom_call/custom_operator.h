// The operators torch.ops.mydev_cc.<name>: one per kernel of the registry that has a signature.
//
// All share one boxed kernel per dispatch key, which reads the signature: PrivateUse1 launches, Autograd adds the
// gradient (custom_operator_autograd.cpp), other devices are refused. Calls from Python that nothing else wants to see
// go past the dispatcher (python/custom_operator_bindings.cpp). The fake kernel (custom_operator_fake.cpp) and batching
// rules are registered from Python (torch_mydev/custom_call/operators.py). An operator's entry in the dispatcher is
// never taken out, since callers may hold it: when its kernel goes, calls raise; when the kernel comes back with
// another schema, the schema is replaced. Thread-safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <vector>

#include "aten/custom_call/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

class CustomOperator {
 public:
  CustomOperator(std::string kernel, std::string name) : kernel_(std::move(kernel)), name_(std::move(name)) {}

  CustomKernel& kernel() noexcept { return kernel_; }
  const std::string& name() const noexcept { return name_; }  // "mydev_cc::scale"
  // The record that the operator stands for now. Raises NOT_FOUND once it has gone.
  const mydev_kernel& record() const;
  // nullptr once it has gone.
  const mydev_kernel* current_record() const noexcept { return record_.load(std::memory_order_acquire); }
  void set_record(const mydev_kernel* record) noexcept { record_.store(record, std::memory_order_release); }

 private:
  CustomKernel kernel_;
  const std::string name_;
  std::atomic<const mydev_kernel*> record_{nullptr};
};

using CustomResults = c10::SmallVector<at::Tensor, 4>;

// Calls the operator below the dispatcher, without derivatives. There is one operand and one attribute for each of the
// signature; an attribute is None if its default is wanted.
MYDEV_API CustomResults call_custom_operator(CustomOperator& op, const mydev_kernel& record,
                                             c10::ArrayRef<at::Tensor> operands, c10::ArrayRef<c10::IValue> attributes);

// Returns the operator with this name in the namespace. It is never freed. Raises NOT_FOUND.
MYDEV_API CustomOperator& custom_operator(const std::string& name);

// The boxed kernels.
void run_custom_operator(CustomOperator& op, torch::jit::Stack* stack);
void record_custom_operator(CustomOperator& op, const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                            torch::jit::Stack* stack);

// Takes the arguments off the stack and puts the operator's results there, empty and of the right shapes and dtypes.
MYDEV_API void fake_custom_operator(CustomOperator& op, torch::jit::Stack* stack);
// Why no record of the device takes the call, whose arguments are on the stack; empty if one does. Raises for operands
// that the signature does not take.
MYDEV_API std::string refusal_of_custom_operator(CustomOperator& op, const torch::jit::Stack& stack, int device);

// Puts those outputs on the stack that the operator returns.
void push_results(const mydev_signature& signature, CustomResults&& results, torch::jit::Stack* stack);

// One change that sync_custom_operators made. kCollision: the operator is not defined, since `operator_name` stands for
// another kernel.
struct OperatorChange {
  enum Kind { kDefined, kRemoved, kCollision } kind;
  std::string kernel, operator_name;
};
// Makes the operators match the registry. Does nothing, quickly, if the registry has not changed.
MYDEV_API void sync_custom_operators();
// Returns the changes since the last call, for the Python side of the operators.
MYDEV_API std::vector<OperatorChange> take_operator_changes();

}  // namespace mydev
