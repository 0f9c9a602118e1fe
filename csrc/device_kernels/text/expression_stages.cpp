#include "device_kernels/text/expression_stages.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace mydev::device_kernels {

namespace {

const Expression::Node& node_of(const ExpressionForm& form, int32_t index) {
  return form.contract->expression.nodes()[static_cast<size_t>(index)];
}

// The reductions that the results need, each in the first stage in which all that its elements need is known.
std::vector<std::vector<int32_t>> stages_of(const ExpressionForm& form, ExpressionText& text) {
  std::vector<int32_t> all;
  for (const BoundOperand* operand : memory_of(form.operands)) {
    if (!operand->is_result) continue;
    for (const int32_t index : text.reductions_of(text.node_of(operand->contract->name))) {
      if (std::ranges::find(all, index) == all.end()) all.push_back(index);
    }
  }
  std::map<int32_t, size_t> depth;
  std::vector<std::vector<int32_t>> stages;
  for (const int32_t index : all) {  // those that others need come first
    if (std::string_view(node_of(form, index).function->name) == "count") continue;  // which is known
    size_t stage = 0;
    for (const int32_t needed : text.reductions_of(node_of(form, index).arguments[0])) {
      if (depth.contains(needed)) stage = std::max(stage, depth[needed] + 1);
    }
    depth[index] = stage;
    stages.resize(std::max(stages.size(), stage + 1));
    stages[stage].push_back(index);
  }
  return stages;
}

}  // namespace

size_t count_stages(const ExpressionForm& form) {
  ExpressionText text(form.contract->expression, form.domain, form.dtype);
  form.bind_numbers(text);
  return stages_of(form, text).size();
}

ExpressionStages::ExpressionStages(const ExpressionForm& form, StageLoop loop, ExpressionText& text, std::string name)
    : form_(form), loop_(std::move(loop)), text_(text), name_(std::move(name)), stages_(stages_of(form, text)) {}

StageText ExpressionStages::next() {
  StageText stage;
  std::string updates;
  std::vector<std::pair<int32_t, Printed>> known;
  text_.begin_block();
  for (const int32_t index : stages_[written_++]) {
    const std::string name = name_ + std::to_string(index);
    const Accumulator accumulator(node_of(form_, index).function->name, name, form_.domain, form_.has_f64);
    stage.declarations += accumulator.declarations(loop_.lanes);
    updates += accumulator.update(text_, text_.print(node_of(form_, index).arguments[0]), loop_.place);
    if (loop_.by_group) stage.combinations += accumulator.combination();
    const Printed value = accumulator.value(loop_.lane, loop_.count);
    const std::string type = value.is_truth ? "bool" : accumulator.is_place() ? "i64" : domain_type(form_.domain);
    stage.values += "const " + type + " r_";
    stage.values += name + " = " + value.text + ";\n";
    known.emplace_back(index, Printed{"r_" + name, value.is_truth, {}});
    stage.accumulators.push_back(accumulator);
  }
  stage.elements = text_.statements() + updates;
  for (auto& [index, value] : known) text_.know(index, value);
  return stage;
}

std::string ExpressionStages::stored_result(const BoundOperand& result) const {
  const int32_t index = text_.node_of(result.contract->name);
  const Printed value = text_.print(index);
  const auto* function = node_of(form_, index).function;
  const bool is_place = function != nullptr && std::string_view(function->name).starts_with("arg");
  return is_place ? "(i64)" + value.text : stored(text_, value, result.dtype);
}

}  // namespace mydev::device_kernels
