// Calls of kernels for operations that name one: custom calls and composites.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/spec/contract.h"
#include "lowering/frame.h"

namespace mydev::lowering {

// Attributes of an operation as kernels take them. Refers to the module.
class CallAttributes {
 public:
  // `values`: a dictionary, a string, which is the attribute "opaque", or nullptr.
  CallAttributes(const stablehlo::Operation& op, const stablehlo::Attribute* values);

  // The operands that are absent, by their places among all: an attribute that is not the kernel's.
  const Sizes& absent() const noexcept { return absent_; }
  // A string among them. Raises INVALID_ARGUMENT if there is none of that name.
  std::string_view text(std::string_view name) const;
  // In the order, and of the kinds, that the kernel's signature or contract says, if it has one. Raises
  // INVALID_ARGUMENT for attributes that it does not have, and those that it needs.
  std::vector<mydev_attribute> of(const mydev_kernel& kernel) const;

 private:
  const mydev_attribute* find(std::string_view name) const;
  std::vector<mydev_attribute> of_contract(const KernelContract& contract) const;
  template <typename IsKnown>
  [[noreturn]] void refuse_unknown(std::string_view kernel, const IsKnown& is_known) const;
  mydev_attribute text_attribute(std::string_view name, const std::string& text);
  mydev_attribute convert(const stablehlo::NamedAttribute& entry);
  mydev_attribute array_attribute(const char* name, const stablehlo::TensorLiteral& literal);

  const stablehlo::Operation& op_;
  std::deque<std::string> names_;
  std::deque<std::vector<std::byte>> arrays_;
  std::deque<std::vector<mydev_attribute>> dictionaries_;
  std::vector<mydev_attribute> attributes_;
  Sizes absent_;
};

// The results and operands of a launch for an operation. The tensors are the operation's results then, one for each of
// its result_types().
struct KernelCall {
  std::vector<program::Operand> results, operands;
  std::vector<Tensor> tensors;
};
// Operands are views if the kernel takes any strides, else dense. Results that the kernel writes in place of an operand
// are a copy of it.
KernelCall kernel_call(Frame& frame, const stablehlo::Operation& op, const mydev_kernel& kernel, const Sizes& absent);

// Gives tensors, one for each of an operation's result_types(), to its results.
void set_results(Frame& frame, const stablehlo::Operation& op, const std::vector<Tensor>& tensors);

}  // namespace mydev::lowering
