#include "device_kernels/base/bound_frame.h"

#include <algorithm>

#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

size_t lists_of(const std::vector<ContractOperand>& operands) {
  return static_cast<size_t>(std::ranges::count(operands, true, &ContractOperand::is_list));
}

}  // namespace

int64_t count_of(const mydev_buffer& buffer) noexcept {
  int64_t count = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) count *= buffer.sizes[d];
  return count;
}

std::vector<const BoundOperand*> memory_of(const std::vector<BoundOperand>& operands) {
  std::vector<const BoundOperand*> found;
  for (const BoundOperand& operand : operands) {
    if (!operand.is_absent() && !operand.is_number) found.push_back(&operand);
  }
  return found;
}

size_t BoundFrame::list_length(const KernelContract& contract, const mydev_frame& frame) {
  if (const size_t lists = lists_of(contract.results); lists != 0) {
    return (frame.num_outputs - (contract.results.size() - lists)) / lists;
  }
  return 1;
}

BoundFrame::BoundFrame(const KernelContract& contract, const mydev_frame& frame, size_t position)
    : contract_(contract), frame_(frame), position_(position) {
  const size_t length = list_length(contract, frame);
  uint32_t next = 0;
  const auto bind = [&](const std::vector<ContractOperand>& all, bool is_result, uint32_t end) {
    for (const ContractOperand& operand : all) {
      BoundOperand bound{.contract = &operand, .is_result = is_result};
      const uint32_t at = next + (operand.is_list ? static_cast<uint32_t>(position) : 0);
      next += operand.is_list ? static_cast<uint32_t>(length) : 1;
      if (at < end) {
        const mydev_buffer& buffer = frame.buffers[at];
        bound.is_number = is_scalar(buffer);
        bound.dtype = static_cast<mydev_dtype>(buffer.dtype);
        const bool absent = buffer.data == nullptr && buffer.rank == 0 && operand.may_be_absent;
        if (!absent) bound.buffer = static_cast<int32_t>(at);
        if (!absent && operand.variable == 0 && first_dtype_ == MYDEV_DTYPE_INVALID) first_dtype_ = bound.dtype;
      }
      operands_.push_back(bound);
    }
  };
  bind(contract.results, true, frame.num_outputs);
  next = frame.num_outputs;  // results may have been left out
  bind(contract.operands, false, frame.num_outputs + frame.num_inputs);
}

const BoundOperand* BoundFrame::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find_if(operands_, [&](const BoundOperand& o) { return o.contract->name == name; });
  return found == operands_.end() ? nullptr : &*found;
}

mydev_attribute BoundFrame::attribute(std::string_view name) const {
  const auto known = std::ranges::find(contract_.attributes, name, &ContractAttribute::name);
  MYDEV_ASSERT(known != contract_.attributes.end());
  const auto place = static_cast<size_t>(known - contract_.attributes.begin());
  if (place < frame_.num_attributes) return frame_.attributes[place];
  const double otherwise = known->otherwise.value_or(0);
  const bool whole = known->kind == ContractKind::kBool || known->kind == ContractKind::kInt;
  return whole ? int_attribute(known->name.c_str(), static_cast<int64_t>(otherwise))
               : float_attribute(known->name.c_str(), otherwise);
}

int64_t BoundFrame::integer(std::string_view name) const {
  const mydev_attribute found = attribute(name);
  return found.kind == MYDEV_ATTRIBUTE_FLOAT ? static_cast<int64_t>(found.value.f) : found.value.i;
}

double BoundFrame::number(std::string_view name) const {
  const mydev_attribute found = attribute(name);
  if (found.kind == MYDEV_ATTRIBUTE_FLOAT_ARRAY) return found.value.floats[found.count == 1 ? 0 : position_];
  return found.kind == MYDEV_ATTRIBUTE_FLOAT ? found.value.f : static_cast<double>(found.value.i);
}

const KernelContract& contract_of(const Request& request) {
  const KernelContract* contract = builtin_contract(request.frame.kernel->name);
  MYDEV_ASSERT(contract != nullptr);
  return *contract;
}

}  // namespace mydev::device_kernels
