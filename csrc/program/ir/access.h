// The accesses of a step to its operands, and the position of each operand in a contract. The verifier and the planner
// use them.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/spec/contract.h"
#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

struct Access {
  const Operand* operand;
  bool reads, writes;
};
// Returns the accesses to the views of a step: results, operands, predicate. `reads` is false for results: only the
// kernel knows whether it reads a result's old value (mydev.matmul reads it unless `beta` is 0).
std::vector<Access> accesses_of(const Step& step);

// The position of a buffer in a contract: its result or operand, and in a list also the entry.
struct ContractPosition {
  size_t operand;
  size_t entry;
};
// Returns the positions of a launch's results, then of its operands; empty if their number does not fit the contract.
std::vector<ContractPosition> contract_positions(const KernelContract& contract, const Step& step);

// True if the parameter of a called program is donated and no result: the value that a call gives for it is lost.
inline bool is_consumed(const Program& program, size_t parameter) {
  const SlotIndex slot = program.parameters()[parameter];
  return program.slots()[slot].donated && !program.is_result(slot);
}

// True if the contract lets the result use this operand's memory.
bool may_be(const KernelContract& contract, const ContractPosition& result, const ContractPosition& operand) noexcept;

// True for views of one slot, of the same sizes, whose elements lie in the same places.
bool same_place(const Operand& a, const Operand& b) noexcept;
// True for views that surely have bytes in common. False for different views with gaps, which may lie in each other's
// gaps.
bool surely_overlap(const Operand& a, const Operand& b) noexcept;
MYDEV_API bool is_dense(const Operand& view) noexcept;

}  // namespace mydev::program
