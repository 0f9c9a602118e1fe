// What a step does to its operands, and which operand of a contract each of them is: for the verifier and the planner.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/spec/contract.h"
#include "program/ir/program.h"

namespace mydev::program {

struct Access {
  const Operand* operand;
  bool reads, writes;
};
// Of the views of a step: results, operands, predicate. Of a result's old value only the kernel knows whether it is
// read (mydev.matmul reads it unless `beta` is 0); it is not said here.
std::vector<Access> accesses_of(const Step& step);

// Which of a contract's results or operands a buffer is; of lists, also which entry.
struct ContractPosition {
  size_t operand;
  size_t entry;
};
// For each of a launch's results, then its operands; empty where their number does not fit the contract.
std::vector<ContractPosition> contract_positions(const KernelContract& contract, const Step& step);

// The parameter of the called program that is donated and no result: what is given for it is lost.
inline bool is_consumed(const Program& program, size_t parameter) {
  const SlotIndex slot = program.parameters()[parameter];
  return program.slots()[slot].donated && !program.is_result(slot);
}

// Whether the contract lets a result be this operand's memory.
bool may_be(const KernelContract& contract, const ContractPosition& result, const ContractPosition& operand) noexcept;

// Views of one slot, of the same sizes, whose elements lie in the same places.
bool same_place(const Operand& a, const Operand& b) noexcept;
// Views that have bytes in common; not of those that have gaps and may lie in each other's.
bool surely_overlap(const Operand& a, const Operand& b) noexcept;
bool is_dense(const Operand& view) noexcept;

}  // namespace mydev::program
