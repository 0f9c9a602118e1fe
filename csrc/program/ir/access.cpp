#include "program/ir/access.h"

#include <algorithm>

#include "kernels/spec/dense.h"
#include "runtime/frame/frame.h"

namespace mydev::program {

namespace {

size_t count_lists(const std::vector<ContractOperand>& operands) {
  return static_cast<size_t>(std::ranges::count_if(operands, &ContractOperand::is_list));
}

// Entries of each list, where lists and single operands are `count` together; nothing if there is no list.
size_t list_length(const std::vector<ContractOperand>& operands, size_t count) {
  const size_t lists = count_lists(operands), single = operands.size() - lists;
  return lists == 0 || count < single ? 0 : (count - single) / lists;
}

// Appends the positions of `count` buffers; false if they do not fit.
bool append_positions(std::vector<ContractPosition>& positions, const std::vector<ContractOperand>& operands,
                      size_t length, size_t count) {
  size_t taken = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].may_be_left_out && taken == count) break;
    const size_t entries = operands[i].is_list ? length : 1;
    for (size_t entry = 0; entry < entries; ++entry) positions.push_back({i, entry});
    taken += entries;
  }
  return taken == count;
}

bool writes_operand(const Step& step, size_t operand) {
  if (step.program == nullptr || operand >= step.program->parameters().size()) return false;
  return step.program->slots()[step.program->parameters()[operand]].donated;
}

}  // namespace

std::vector<Access> accesses_of(const Step& step) {
  std::vector<Access> accesses;
  accesses.reserve(step.results.size() + step.operands.size() + 1);
  const auto add = [&](const Operand& operand, bool reads, bool writes) {
    if (operand.kind == Operand::kView) accesses.push_back({&operand, reads, writes});
  };
  for (const Operand& result : step.results) add(result, false, true);
  for (size_t i = 0; i < step.operands.size(); ++i) add(step.operands[i], true, writes_operand(step, i));
  add(step.predicate, true, false);
  return accesses;
}

std::vector<ContractPosition> contract_positions(const KernelContract& contract, const Step& step) {
  const size_t length = count_lists(contract.results) != 0 ? list_length(contract.results, step.results.size())
                                                           : list_length(contract.operands, step.operands.size());
  std::vector<ContractPosition> positions;
  if (!append_positions(positions, contract.results, length, step.results.size()) ||
      !append_positions(positions, contract.operands, length, step.operands.size())) {
    return {};
  }
  return positions;
}

bool may_be(const KernelContract& contract, const ContractPosition& result, const ContractPosition& operand) noexcept {
  const std::vector<int32_t>& allowed = contract.results[result.operand].may_be;
  return result.entry == operand.entry && std::ranges::find(allowed, operand.operand) != allowed.end();
}

bool same_place(const Operand& a, const Operand& b) noexcept {
  return a.kind == Operand::kView && b.kind == Operand::kView && a.slot == b.slot && a.offset == b.offset &&
         dtype_size(a.dtype) == dtype_size(b.dtype) && a.sizes == b.sizes && a.strides == b.strides;
}

bool surely_overlap(const Operand& a, const Operand& b) noexcept {
  if (a.kind != Operand::kView || b.kind != Operand::kView || a.slot != b.slot) return false;
  const auto [a_begin, a_end] = bytes_touched(a);
  const auto [b_begin, b_end] = bytes_touched(b);
  const bool overlap = a_begin < b_end && b_begin < a_end && a_begin != a_end && b_begin != b_end;
  return overlap && (same_place(a, b) || (is_dense(a) && is_dense(b)));
}

bool is_dense(const Operand& view) noexcept {
  return mydev::is_dense(buffer_of(view, nullptr));
}

}  // namespace mydev::program
