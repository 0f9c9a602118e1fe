// Kernels that reduce: those of the contracts whose expression has a sum, a maximum or the like, over some dimensions
// of the operands, or over all.
//
// Reductions whose elements need others first (a variance needs the mean) come in stages, each of which goes through
// the elements once. Few results with many elements each have a group each, whose threads share the elements; many
// results with few elements, or with elements that lie side by side for neighbouring results, have a thread each.
#include <algorithm>
#include <span>
#include <utility>

#include "device_kernels/accumulator.h"
#include "device_kernels/expression_kernel.h"
#include "device_kernels/extents.h"

namespace mydev::device_kernels {

namespace {

constexpr int64_t kFewElements = 32;  // of a result, which a thread adds up alone
constexpr int64_t kManyResults = 64;

// The elements that are reduced, and the results that are kept, of the buffers that `names` names.
class ReductionLoop {
 public:
  ReductionLoop(const Request& request, const Extents& extents, size_t results, std::vector<std::string> names)
      : request_(request),
        names_(std::move(names)),
        kept_(extents.taken([&](const Dimension& dimension) { return is_kept(dimension, results); })),
        reduced_(extents.taken([&](const Dimension& dimension) { return !is_kept(dimension, results); })) {
    kept_.pad(kept_.padded_rank());
    reduced_.pad(reduced_.padded_rank());
    const size_t first_operand = std::min(results, names_.size() - 1);
    const bool side_by_side = kept_.dimensions().back().strides[first_operand] == 1 &&
                              reduced_.dimensions().back().strides[first_operand] != 1;
    by_group_ = reduced_.count() >= kFewElements && !(side_by_side && kept_.count() >= kManyResults);
    const Dimension& inner = (by_group_ ? reduced_ : kept_).dimensions().back();
    for (const int64_t stride : inner.strides) inner_ += stride == 1 ? '1' : 's';
  }

  bool by_group() const noexcept { return by_group_; }
  int64_t results() const noexcept { return kept_.count(); }
  int64_t elements() const noexcept { return reduced_.count(); }
  std::string form() const {
    return std::string(by_group_ ? "g" : "l") + std::to_string(kept_.dimensions().size()) + "-" +
           std::to_string(reduced_.dimensions().size()) + inner_;
  }

  void declare(FunctionText& function) const {
    for_each_size([&](const std::string& name, int64_t) { function.add_integer(name); });
  }
  void give(Call& call) const {
    for_each_size([&](const std::string&, int64_t value) { call.give(value); });
  }
  mydev_geometry geometry() const {
    if (by_group_) return groups(request_, static_cast<uint64_t>(results()));
    const int64_t length = kept_.dimensions().back().size;
    return rows_of(request_, results() / length, length, request_.language.block);
  }
  std::string count_text() const { return product("r", reduced_.dimensions().size()); }

  // Text, from the outside to the inside: the results, the elements of one.
  std::string open_results() const {
    const size_t rank = kept_.dimensions().size();
    if (by_group_) return "GROUPS_OPEN(i64, g, " + product("k", rank) + ")\n" + places("k", "g", rank, "");
    return "ROWS_OPEN(i64, row, " + product("k", rank - 1) + ", k" + std::to_string(rank - 1) + ", BLOCK)\n" +
           places("k", "row", rank - 1, "");
  }
  std::string close_results() const { return by_group_ ? "GROUPS_CLOSE\n" : "ROWS_CLOSE\n"; }
  std::string open_elements() const {
    const size_t rank = reduced_.dimensions().size();
    const std::string inner = "r" + std::to_string(rank - 1);
    std::string text =
        "for (i64 q = 0; q < " + product("r", rank - 1) + "; ++q) {\n" + places("r", "q", rank - 1, "_k");
    if (by_group_) return text + "LOOP_OPEN(i64, j, " + inner + ")\n";
    return text + "for (i64 j = 0; j < " + inner + "; ++j) {\n" + open_lanes();
  }
  std::string close_elements() const {
    if (by_group_) return "LOOP_CLOSE(r" + std::to_string(reduced_.dimensions().size() - 1) + ")\n}\n";
    return close_lanes() + "}\n}\n";
  }
  std::string open_lanes() const { return "LANES_OPEN(i64, i)\n"; }
  std::string close_lanes() const { return "LANES_CLOSE(BLOCK)\n"; }
  std::string place_of_element() const { return "(q * r" + std::to_string(reduced_.dimensions().size() - 1) + " + j)"; }

  // An element that is reduced, within open_elements; and a result's.
  std::string element(size_t b) const {
    return names_[b] + "[" + names_[b] + "_r + j" +
           (by_group_ && inner_[b] == '1' ? "" : " * " + inner_stride(b, "r")) + lane(b) + "]";
  }
  std::string result(size_t b) const { return names_[b] + "[" + names_[b] + "_k" + lane(b) + "]"; }

 private:
  static bool is_kept(const Dimension& dimension, size_t results) {
    return std::any_of(dimension.strides.begin(), dimension.strides.begin() + static_cast<ptrdiff_t>(results),
                       [](int64_t stride) { return stride != 0; });
  }
  std::string inner_stride(size_t b, const std::string& kind) const {
    return names_[b] + "_" + kind + std::to_string((kind == "k" ? kept_ : reduced_).dimensions().size() - 1);
  }
  std::string lane(size_t b) const {
    if (by_group_) return "";
    return inner_[b] == '1' ? " + i" : " + i * " + inner_stride(b, "k");
  }
  template <typename Function>
  void for_each_size(const Function& function) const {
    for (const auto& [kind, extents] : {std::pair{"k", &kept_}, std::pair{"r", &reduced_}}) {
      const auto& dimensions = extents->dimensions();
      for (size_t d = 0; d < dimensions.size(); ++d) {
        const std::string suffix = kind + std::to_string(d);
        function(suffix, dimensions[d].size);
        for (size_t b = 0; b < names_.size(); ++b) function(names_[b] + "_" + suffix, dimensions[d].strides[b]);
      }
    }
  }
  static std::string product(const std::string& kind, size_t end) {
    std::string text;
    for (size_t d = 0; d < end; ++d) text += (d == 0 ? "" : " * ") + kind + std::to_string(d);
    return text.empty() ? "1" : "(" + text + ")";
  }
  // Takes an index apart into the dimensions before `end`, and adds to the places of `base`.
  std::string places(const std::string& kind, const std::string& index, size_t end, const std::string& base) const {
    std::string text, rest = index;
    for (size_t d = end; d-- > 0;) {
      const std::string at = kind + std::to_string(d);
      text += "const i64 p" + at + " = " + (d == 0 ? rest : rest + " % " + at) + ", q" + at + " = " + rest + " / " +
              at + ";\n";
      rest = "q" + at;
    }
    for (const std::string& name : names_) {
      text += "const i64 " + name + "_" + kind + " = " + (base.empty() ? "0" : name + base);
      for (size_t d = 0; d < end; ++d) {
        const std::string at = kind + std::to_string(d);
        text.append(" + p").append(at).append(" * ").append(name).append("_").append(at);
      }
      text += ";\n";
    }
    return text;
  }

  const Request& request_;
  std::vector<std::string> names_;
  Extents kept_, reduced_;
  bool by_group_ = false;
  std::string inner_;
};

// Writes the function of a reduction.
class ReductionText {
 public:
  ReductionText(const ExpressionForm& form, const ReductionLoop& loop)
      : form_(form),
        loop_(loop),
        text_(form.contract->expression, form.domain, form.dtype),
        memory_(memory_of(form.operands)) {}

  std::pair<std::string, KernelParameters> write() {
    FunctionText function;
    for (size_t b = 0; b < memory_.size(); ++b) declare(function, b);
    loop_.declare(function);
    form_.declare_numbers(function);
    form_.bind_numbers(text_);
    std::string body = loop_.by_group() ? "SCRATCH;\n" : "";
    body += loop_.open_results();
    for (const std::vector<int32_t>& stage : stages()) body += write_stage(stage);
    text_.begin_block();
    std::string stores;
    for (size_t b = 0; b < memory_.size() && memory_[b]->is_result; ++b) stores += store(b);
    const std::string last = known_values_ + text_.statements() + stores;
    body += loop_.by_group() ? last : loop_.open_lanes() + last + loop_.close_lanes();
    return {function.text(form_.function_name(), body + loop_.close_results()), function.parameters()};
  }

 private:
  void declare(FunctionText& function, size_t b) {
    const BoundOperand& operand = *memory_[b];
    const std::string& name = operand.contract->name;
    if (operand.is_result) return function.add_result(memory_type(operand.dtype), "m_" + name);
    function.add_operand(memory_type(operand.dtype), "m_" + name);
    auto [statement, value] = load(operand, loop_.element(b), form_.domain);
    text_.bind_late(name, std::move(statement), std::move(value));
  }

  const Expression::Node& node(int32_t index) const {
    return form_.contract->expression.nodes()[static_cast<size_t>(index)];
  }

  // The reductions that the results need, each in the first stage in which all that its elements need is known.
  std::vector<std::vector<int32_t>> stages() {
    std::vector<int32_t> all;
    for (const BoundOperand* operand : memory_) {
      if (!operand->is_result) continue;
      for (const int32_t index : text_.reductions_of(text_.node_of(operand->contract->name))) {
        if (std::ranges::find(all, index) == all.end()) all.push_back(index);
      }
    }
    std::map<int32_t, size_t> depth;
    std::vector<std::vector<int32_t>> stages;
    for (const int32_t index : all) {                                         // those that others need come first
      if (std::string_view(node(index).function->name) == "count") continue;  // which is known
      size_t stage = 0;
      for (const int32_t needed : text_.reductions_of(node(index).arguments[0])) {
        if (depth.contains(needed)) stage = std::max(stage, depth[needed] + 1);
      }
      depth[index] = stage;
      stages.resize(std::max(stages.size(), stage + 1));
      stages[stage].push_back(index);
    }
    text_.begin_block();
    return stages;
  }

  std::string write_stage(const std::vector<int32_t>& stage) {
    std::string declarations, updates, combinations, values;
    text_.begin_block();
    for (const int32_t index : stage) {
      const std::string name = "acc" + std::to_string(index);
      const Accumulator accumulator(node(index).function->name, name, form_.domain);
      declarations += accumulator.declarations(loop_.by_group() ? "LANES" : "BLOCK");
      updates += accumulator.update(text_, text_.print(node(index).arguments[0]), loop_.place_of_element());
      if (loop_.by_group()) combinations += accumulator.combination();
      const Printed value = accumulator.value(loop_.by_group() ? "0" : "lane", loop_.count_text());
      const std::string type = value.is_truth ? "bool" : accumulator.is_place() ? "i64" : domain_type(form_.domain);
      values += "const " + type + " r_" + name + " = " + value.text + ";\n";
      later_.emplace_back(index, Printed{"r_" + name, value.is_truth, {}});
    }
    const std::string text = declarations + loop_.open_elements() + (loop_.by_group() ? "" : known_values_) +
                             text_.statements() + updates + loop_.close_elements() + combinations;
    for (auto& [index, value] : later_) text_.know(index, value);
    later_.clear();
    if (loop_.by_group()) return text + values;
    known_values_ += values;
    return text;
  }

  std::string store(size_t b) {
    const BoundOperand& operand = *memory_[b];
    const int32_t index = text_.node_of(operand.contract->name);
    const Printed result = text_.print(index);
    const bool is_place =
        node(index).function != nullptr && std::string_view(node(index).function->name).starts_with("arg");
    const std::string value = is_place ? "(i64)" + result.text : stored(text_, result, operand.dtype);
    return (loop_.by_group() ? "ONCE " : "") + loop_.result(b) + " = " + value + ";\n";
  }

  const ExpressionForm& form_;
  const ReductionLoop& loop_;
  ExpressionText text_;
  std::vector<const BoundOperand*> memory_;
  std::vector<std::pair<int32_t, Printed>> later_;
  std::string known_values_;  // of lanes, which each loop over them begins with
};

}  // namespace

void add_reduction(const Request& request, const BoundFrame& frame, ExpressionForm form, Work& work) {
  const std::vector<const BoundOperand*> memory = memory_of(frame.operands());
  std::vector<const mydev_buffer*> buffers;
  std::vector<std::string> names;
  size_t results = 0;
  const mydev_buffer* elements = nullptr;  // that are reduced
  for (const BoundOperand* operand : memory) {
    buffers.push_back(&frame.buffer(*operand));
    names.push_back("m_" + operand->contract->name);
    if (operand->is_result) ++results;
    if (!operand->is_result && (elements == nullptr || buffers.back()->rank > elements->rank))
      elements = buffers.back();
  }
  require(results != 0 && elements != nullptr, "reduce an operand to a result");
  const Extents extents({elements->sizes, static_cast<size_t>(elements->rank)}, buffers);
  const ReductionLoop loop(request, extents, results, names);
  if (loop.results() == 0) return;
  form.count = loop.elements();
  const auto write = [&](const ExpressionForm& of) { return ReductionText(of, loop).write(); };
  Call call(expression_function(request, form, loop.form(), write), loop.geometry());
  for (const BoundOperand* operand : memory) call.give(Call::Memory{operand->buffer});
  loop.give(call);
  form.give_numbers(call, frame);
  work.calls.push_back(std::move(call));
}

}  // namespace mydev::device_kernels
