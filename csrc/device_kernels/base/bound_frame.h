// A frame as its kernel's contract names its parts: operands, results and attributes by name. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device_kernels/base/portable_kernel.h"
#include "kernels/spec/contract.h"

namespace mydev::device_kernels {

// An operand or a result, or one buffer of a list of them.
struct BoundOperand {
  const ContractOperand* contract;
  int32_t buffer = -1;  // its place in the frame; -1: it is absent
  bool is_result = false;
  bool is_number = false;
  mydev_dtype dtype = MYDEV_DTYPE_INVALID;

  bool is_absent() const noexcept { return buffer < 0; }
};

inline bool is_there(const BoundOperand* operand) noexcept {
  return operand != nullptr && !operand->is_absent();
}
int64_t count_of(const mydev_buffer& buffer) noexcept;  // its elements
// Gives the operands that lie in memory, in their order.
std::vector<const BoundOperand*> memory_of(const std::vector<BoundOperand>& operands);

class BoundFrame {
 public:
  // `position`: which buffer of each list. Contracts without lists have position 0 alone.
  BoundFrame(const KernelContract& contract, const mydev_frame& frame, size_t position = 0);

  // The buffers that each list of the frame has; 1 if the contract has no list.
  static size_t list_length(const KernelContract& contract, const mydev_frame& frame);

  const KernelContract& contract() const noexcept { return contract_; }
  const mydev_frame& frame() const noexcept { return frame_; }
  size_t position() const noexcept { return position_; }
  // Results, then operands.
  const std::vector<BoundOperand>& operands() const noexcept { return operands_; }
  const BoundOperand* find(std::string_view name) const noexcept;  // nullptr: there is none of that name
  bool has(std::string_view name) const noexcept { return is_there(find(name)); }
  const mydev_buffer& buffer(const BoundOperand& operand) const { return frame_.buffers[operand.buffer]; }
  // The distance of an operand's elements along a dimension; 0 if it is absent.
  int64_t stride(std::string_view name, int32_t d) const { return has(name) ? buffer(*find(name)).strides[d] : 0; }
  mydev_dtype first_dtype() const noexcept { return first_dtype_; }  // of the contract's first variable

  // The attribute of that name, or its default. The contract has one.
  mydev_attribute attribute(std::string_view name) const;
  int64_t integer(std::string_view name) const;  // of an attribute that is an integer or a truth value
  double number(std::string_view name) const;    // of one that is a number, or this position's entry of a list

 private:
  const KernelContract& contract_;
  const mydev_frame& frame_;
  size_t position_;
  std::vector<BoundOperand> operands_;
  mydev_dtype first_dtype_ = MYDEV_DTYPE_INVALID;
};

// The contract of the kernel that is asked for.
const KernelContract& contract_of(const Request& request);

}  // namespace mydev::device_kernels
