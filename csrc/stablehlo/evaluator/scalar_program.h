// The body of a reduction, a comparator or a map, on scalars: it computes its region one element at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/api.h"
#include "stablehlo/evaluator/scalar_operation.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

// Immutable; any thread. Refers to the module.
class MYDEV_API ScalarProgram {
 public:
  // The region has one block whose arguments, results and operations are scalars. Raises UNIMPLEMENTED, with the
  // operation, for operations that are not computed element by element, and for values from outside that are no
  // constants.
  ScalarProgram(const Module& module, const Region& region);

  size_t num_arguments() const noexcept { return arguments_; }
  size_t num_results() const noexcept { return results_.size(); }
  // The operation, if the region is just that, applied to its arguments, in their order or reversed: add, maximum, ...
  const Operation* only_operation() const noexcept { return only_operation_; }

  // Registers of one thread, for run().
  std::vector<Number> make_registers() const { return initial_; }
  // Arguments are in the first registers. Results are valid until the next run.
  void run(std::vector<Number>& registers) const;
  const Number& result(const std::vector<Number>& registers, size_t index) const { return registers[results_[index]]; }

 private:
  struct Instruction {
    ScalarOperation operation;
    std::vector<uint32_t> operands;
    uint32_t result;
  };
  using Names = std::vector<uint32_t>;  // of values, by their ids

  std::vector<uint32_t> add_block(const Module& module, const Block& block, std::span<const uint32_t> arguments,
                                  Names& names);
  void add_operation(const Module& module, const Operation& op, Names& names);
  uint32_t add_register(const Number& number = {});
  // The register of a value that the body computed, or of a constant, which may be outside of it.
  uint32_t register_of(const Value& value, const Operation& user, Names& names);

  size_t arguments_ = 0;
  std::vector<Number> initial_;  // constants in their places
  std::vector<Instruction> instructions_;
  std::vector<uint32_t> results_;
  const Operation* only_operation_ = nullptr;
};

}  // namespace mydev::stablehlo
