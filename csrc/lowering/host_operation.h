// Operations that are computed on the host, as launches of one kernel: "stablehlo.evaluate".
//
// The kernel is a host record like any other: where the host does not reach the device's memory, it is given copies of
// its operands, and its results are copied back. Its attributes say which operation a launch is: "operator", its name,
// and "operation", its number in this process.
#pragma once

#include <cstdint>
#include <vector>

#include "lowering/emitter.h"
#include "stablehlo/evaluator/evaluation.h"

namespace mydev::lowering {

// Of one program. Launches of it must be over when it is destroyed. Thread-safe once filled.
class HostOperations {
 public:
  HostOperations() = default;
  ~HostOperations();
  HostOperations(const HostOperations&) = delete;
  HostOperations& operator=(const HostOperations&) = delete;

  // Operands are made dense; results are dense temporaries.
  void launch(Emitter& emitter, std::string_view name, stablehlo::Evaluation evaluation,
              std::vector<program::Operand> results, std::vector<program::Operand> operands);
  size_t count() const noexcept { return numbers_.size(); }

 private:
  std::vector<int64_t> numbers_;
};

}  // namespace mydev::lowering
