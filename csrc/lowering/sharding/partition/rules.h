// The sizes over which an operation can be computed in shards: its factors, as Shardy calls them.
//
// A factor is a size over which the operation does the same work: for a matrix product, the rows, the columns and the
// contracted dimension. Dimensions of operands and results that run over one factor can be cut together. Any thread.
#pragma once

#include <string_view>
#include <vector>

#include "lowering/emitter.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

struct Rule {
  static constexpr int kWhole = -1;
  std::vector<std::vector<int>> operands, results;  // by dimension, its factor; kWhole: it is not to be cut
  // By factor: whether the results of shards are summands of sums that are then to be made.
  std::vector<bool> summed;
  // The region of the operation that combines two of them; nullptr: they are added.
  const stablehlo::Region* combination = nullptr;
  // The attribute that has sizes of an operand's dimensions, which become those of a shard; "": none.
  std::string_view sizes_attribute = "";

  int add_factor(bool is_summed = false) {
    summed.push_back(is_summed);
    return static_cast<int>(summed.size()) - 1;
  }
};

// The rule of an operation. Operators that are not known here have no factors: their operands are whole.
Rule rule_of(const stablehlo::Module& module, const stablehlo::Operation& op);
// Whether the region adds its two arguments, and nothing else.
bool adds(const stablehlo::Module& module, const stablehlo::Region& region);
// Whether the operation's result is the sum of its results for each summand, if these operands come in summands.
bool is_linear(const stablehlo::Module& module, const stablehlo::Operation& op, const std::vector<bool>& in_summands);

}  // namespace mydev::lowering
