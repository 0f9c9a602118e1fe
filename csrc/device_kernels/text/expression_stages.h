// The reductions of a contract's expression, in stages: those whose elements need others first (a variance needs the
// mean) come in later ones. Each stage goes through the elements once. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/text/accumulator.h"
#include "device_kernels/text/expression_kernel.h"
#include "device_kernels/text/expression_text.h"
#include "device_kernels/text/reduction_loop.h"

namespace mydev::device_kernels {

// The stages that a form needs.
size_t count_stages(const ExpressionForm& form);

// The loop that goes through the elements of a result, or of each lane's.
struct StageLoop {
  bool by_group;  // its threads share the elements
  std::string lanes, lane;
  std::string place, count;  // of an element among those that are reduced; of all of these

  explicit StageLoop(const ReductionLoop& loop)
      : by_group(loop.by_group()),
        lanes(by_group ? "LANES" : "BLOCK"),
        lane(by_group ? "0" : "lane"),
        place(loop.place_of_element()),
        count(loop.count_text()) {}
  // One thread goes through the elements by itself.
  StageLoop(std::string element, int64_t elements)
      : by_group(false), lanes("1"), lane("0"), place(std::move(element)), count(std::to_string(elements)) {}
};

// The text of a stage.
struct StageText {
  std::string declarations;  // before the loop over the elements
  std::string elements;      // within it
  std::string combinations;  // behind it: of the lanes of a group
  std::string values;        // what is known from then on, of a result
  std::vector<Accumulator> accumulators;
};

class ExpressionStages {
 public:
  // `name`: of the accumulators, without the numbers that are added. The text's names are bound by the caller.
  ExpressionStages(const ExpressionForm& form, StageLoop loop, ExpressionText& text, std::string name);

  size_t count() const noexcept { return stages_.size(); }
  // Writes the stage behind the last that was written.
  StageText next();
  // The text of the element that is stored for a result. All stages have been written.
  std::string stored_result(const BoundOperand& result) const;

 private:
  const ExpressionForm& form_;
  StageLoop loop_;
  ExpressionText& text_;
  std::string name_;
  std::vector<std::vector<int32_t>> stages_;
  size_t written_ = 0;
};

}  // namespace mydev::device_kernels
