// What of an operation can be computed in parts: its factors, as Shardy calls them.
//
// A factor is a size over which the operation does the same work, like the rows, the columns and what is contracted of
// a matrix product. Dimensions of operands and results that run over one factor can be cut together. Any thread.
#pragma once

#include <string_view>
#include <vector>

#include "lowering/emitter.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

struct Rule {
  static constexpr int kWhole = -1;
  std::vector<std::vector<int>> operands, results;  // by dimension, its factor; kWhole: it is not to be cut
  // By factor: whether the results of parts are parts of sums, which are then to be made.
  std::vector<bool> summed;
  // What makes them of two: a region of the operation; nullptr: they are added.
  const stablehlo::Region* combination = nullptr;
  // The attribute that has sizes of an operand's dimensions (of the result's, where is_of_result), as they are of the
  // parts; "": none.
  std::string_view sizes_attribute = "";

  int add_factor(bool is_summed = false) {
    summed.push_back(is_summed);
    return static_cast<int>(summed.size()) - 1;
  }
};

// Operators that are not known here have no factors: their operands are whole.
Rule rule_of(const stablehlo::Module& module, const stablehlo::Operation& op);
// Whether the region adds its two arguments, and nothing else.
bool adds(const stablehlo::Module& module, const stablehlo::Region& region);
// Whether the operation's result is the sum of its results of each summand, where these operands come in summands.
bool is_linear(const stablehlo::Module& module, const stablehlo::Operation& op, const std::vector<bool>& in_summands);

}  // namespace mydev::lowering
