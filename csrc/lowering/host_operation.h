// Operations that are computed on the host, as launches of one kernel: "stablehlo.evaluate".
//
// The kernel is a host record like any other: if the host does not reach the device's memory, it is given copies of its
// operands, and its results are copied back. Its attributes say which operation a launch is: "operator", its name, and
// "operation", its number in this process.
#pragma once

#include <cstdint>
#include <vector>

#include "lowering/emitter.h"
#include "stablehlo/evaluator/evaluation.h"

namespace mydev::lowering {

// The host operations of one program. Launches of them must be over when this is destroyed. Thread-safe once filled.
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
