// `mydev.fused`: the steps of a body as one function of the device.
//
// Without reductions, each thread computes all steps for its elements. With them, a group (or a thread, where rows are
// short) has the elements of one entry of the outer dimensions, and goes through them once for each stage of
// reductions, and once more for what is stored. Values that a later pass needs are computed again: they come from
// memory that no step has written yet, since all stores are in the last pass. Values are rounded to their dtypes
// between the steps, as they are where each step is a launch.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "device_kernels/fused/fused_kernel.h"
#include "device_kernels/fused/fused_values.h"
#include "device_kernels/text/element_loop.h"
#include "device_kernels/text/expression_stages.h"
#include "device_kernels/text/reduction_loop.h"
#include "kernels/spec/form_reader.h"
#include "runtime/base/hash.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

// Iterations that see what others wrote are a launch each.
constexpr uint64_t kMostLaunches = 256;
// Parameters of a function: OpenCL promises 1024 bytes for them.
constexpr size_t kMostParameters = 120;

// Views of the body, as buffers whose elements have some of its dimensions.
class ViewBuffers {
 public:
  ViewBuffers(const FusedBody& body, const std::vector<FusedView>& views, size_t begin, size_t end)
      : sizes_(std::span(body.sizes).subspan(begin, end - begin)) {
    for (const FusedView& view : views) {
      mydev_buffer& buffer = buffers_.emplace_back();
      buffer.rank = static_cast<int32_t>(sizes_.size());
      buffer.sizes = sizes_.data();
      buffer.strides = view.strides.data() + begin;
    }
  }
  Extents extents() const {
    std::vector<const mydev_buffer*> pointers;
    pointers.reserve(buffers_.size());
    for (const mydev_buffer& buffer : buffers_) pointers.push_back(&buffer);
    return {sizes_, pointers};
  }

 private:
  std::span<const int64_t> sizes_;
  std::vector<mydev_buffer> buffers_;
};

std::vector<std::string> names_of(const std::vector<FusedView>& views) {
  std::vector<std::string> names;
  names.reserve(views.size());
  for (const FusedView& view : views) names.push_back(view.name());
  return names;
}

// The body and its values, of which a function is written.
struct FusedParts {
  const FusedBody& body;
  const FusedValues& values;

  int64_t advance(const FusedView& view) const { return body.advances.empty() ? 0 : body.advances[view.buffer]; }
  bool loops() const { return body.iterations > 1 && body.apart; }

  // Declares the parameters; gives them to a call, which begins at an iteration.
  template <typename Loop>
  void declare(FunctionText& function, const Loop& loop) const {
    for (const FusedView& view : values.views()) {
      if (view.is_written) {
        function.add_result(memory_type(view.dtype), view.name());
      } else {
        function.add_operand(memory_type(view.dtype), view.name());
      }
    }
    loop.declare(function);
    for (const FusedStep& step : values.steps()) step.form.declare_numbers(function);
    if (!loops()) return;
    function.add_integer("iterations");
    for (const FusedView& view : values.views()) function.add_integer(view.name() + "_advance");
  }
  template <typename Loop>
  void give(Call& call, const Loop& loop, uint64_t iteration) const {
    for (const bool written : {true, false}) {
      for (const FusedView& view : values.views()) {
        if (view.is_written != written) continue;
        const auto moved = static_cast<int64_t>(iteration) * advance(view);
        call.give(Call::Memory{static_cast<int32_t>(view.buffer), static_cast<uint64_t>(view.offset + moved)});
      }
    }
    loop.give(call);
    for (const FusedStep& step : values.steps()) step.form.give_numbers(call, step.bound);
    if (!loops()) return;
    call.give(static_cast<int64_t>(body.iterations));
    for (const FusedView& view : values.views()) call.give(advance(view) / dtype_size(view.dtype));
  }
};

// Text in one block, in which each value is computed once, where it is first needed.
class Block {
 public:
  // `element` gives the text of a view's element. Values of `known` are there already.
  Block(const FusedValues& values, std::function<std::string(size_t)> element, std::set<size_t> known)
      : values_(values), element_(std::move(element)), known_(std::move(known)) {}

  void need(size_t index) {
    if (!known_.insert(index).second) return;
    const FusedValue& value = values_.values()[index];
    if (value.view >= 0) {
      text_ += "const " + std::string(memory_type(value.dtype)) + " " + value.name() + " = " +
               element_(static_cast<size_t>(value.view)) + ";\n";
      return;
    }
    add_step(value.step);
  }
  void need_operands(const FusedStep& step) {
    for (const BoundOperand* operand : memory_of(step.form.operands)) {
      if (!operand->is_result) need(step.values[static_cast<size_t>(operand->buffer)]);
    }
  }
  void add(const std::string& text) { text_ += text; }
  const std::string& text() const noexcept { return text_; }
  const std::set<size_t>& known() const noexcept { return known_; }

  // Says that the expression's names are the values of the step's operands.
  static void bind(const FusedValues& values, const FusedStep& step, ExpressionText& text) {
    for (const BoundOperand* operand : memory_of(step.form.operands)) {
      if (operand->is_result) continue;
      const FusedValue& value = values.values()[step.values[static_cast<size_t>(operand->buffer)]];
      auto [statement, printed] = load(*operand, value.name(), step.form.domain);
      text.bind_late(operand->contract->name, std::move(statement), std::move(printed));
    }
    step.form.bind_numbers(text);
  }
  // Declares the values of a step's results, and sets them to the texts.
  void add_results(const FusedStep& step, const std::string& statements, const std::vector<std::string>& stored) {
    std::string stores;
    size_t next = 0;
    for (const BoundOperand* operand : memory_of(step.form.operands)) {
      if (!operand->is_result) continue;
      const size_t index = step.values[static_cast<size_t>(operand->buffer)];
      const FusedValue& value = values_.values()[index];
      known_.insert(index);
      text_ += std::string(memory_type(value.dtype)) + " " + value.name() + ";\n";
      stores += value.name() + " = " + stored[next++] + ";\n";
    }
    text_ += "{\n" + statements + stores + "}\n";
  }

 private:
  // A step that computes element by element.
  void add_step(size_t index) {
    const FusedStep& step = values_.steps()[index];
    need_operands(step);
    ExpressionText text(step.form.contract->expression, step.form.domain, step.form.dtype);
    bind(values_, step, text);
    std::vector<std::string> results;
    for (const BoundOperand* operand : memory_of(step.form.operands)) {
      if (!operand->is_result) continue;
      results.push_back(stored(text, text.print(text.node_of(operand->contract->name)), operand->dtype));
    }
    add_results(step, text.statements(), results);
  }

  const FusedValues& values_;
  std::function<std::string(size_t)> element_;
  std::set<size_t> known_;
  std::string text_;
};

// Stores of what the body writes: of values that are outer ones, or of the others.
std::vector<std::pair<size_t, size_t>> stores_of(const FusedValues& values, bool outer) {
  std::vector<std::pair<size_t, size_t>> stores;  // a view, its value
  for (const FusedView& view : values.views()) {
    if (!view.is_written) continue;
    const size_t last = values.last_of(view.number);
    if (values.values()[last].is_outer == outer) stores.emplace_back(view.number, last);
  }
  return stores;
}

// One loop over all elements, each of which is computed by itself.
std::string element_body(const FusedParts& parts, const ElementLoop& loop) {
  const std::string iteration = parts.loops() ? " + iteration * " : "";
  const auto element = [&](size_t view) {
    const std::string name = parts.values.views()[view].name();
    if (iteration.empty()) return loop.element(view);
    return name + "[" + loop.place(view) + iteration + name + "_advance]";
  };
  Block block(parts.values, element, {});
  for (const bool outer : {false, true}) {
    const auto stores = stores_of(parts.values, outer);
    for (const auto& [view, value] : stores) block.need(value);
    for (const auto& [view, value] : stores) {
      block.add(element(view) + " = " + parts.values.values()[value].name() + ";\n");
    }
  }
  std::string text = block.text();
  if (!iteration.empty()) text = "for (i64 iteration = 0; iteration < iterations; ++iteration) {\n" + text + "}\n";
  return loop.open_rows() + loop.open_places() + text + loop.close();
}

// A body that reduces.
class ReducingBody {
 public:
  ReducingBody(const FusedValues& values, const ReductionLoop& loop)
      : values_(values), loop_(loop), outer_(values, [&](size_t view) { return loop_.result(view); }, {}) {
    for (const FusedStep& step : values.steps()) {
      Reduction& reduction = reductions_.emplace_back();
      if (!step.reduces) continue;
      const ExpressionForm& form = step.form;
      reduction.text = std::make_unique<ExpressionText>(form.contract->expression, form.domain, form.dtype);
      Block::bind(values, step, *reduction.text);
      const std::string name = "acc" + std::to_string(reductions_.size() - 1) + "_";
      reduction.stages = std::make_unique<ExpressionStages>(form, StageLoop(loop), *reduction.text, name);
      stages_ = std::max(stages_, step.depth + reduction.stages->count());
    }
  }

  std::string write() {
    std::string body = (loop_.by_group() ? "SCRATCH;\n" : "") + loop_.open_results();
    add_outer(body, 0);
    for (size_t stage = 0; stage < stages_; ++stage) {
      add_stage(body, stage);
      add_outer(body, stage + 1);
    }
    add_stores(body);
    return body + loop_.close_results();
  }

 private:
  struct Reduction {
    std::unique_ptr<ExpressionText> text;
    std::unique_ptr<ExpressionStages> stages;
  };

  // A group computes the values of an entry of the outer dimensions once, and each loop over lanes again.
  std::string known() const { return loop_.by_group() ? "" : outer_.text(); }

  // Adds what is known from this stage on.
  void add_outer(std::string& body, size_t depth) {
    const size_t before = outer_.text().size();
    outer_.add(std::exchange(values_of_stage_, {}));
    for (size_t s = 0; s < values_.steps().size(); ++s) {
      const FusedStep& step = values_.steps()[s];
      if (step.reduces && step.depth + reductions_[s].stages->count() == depth) {
        ExpressionText& text = *reductions_[s].text;
        text.begin_block();
        std::vector<std::string> stored;
        for (const BoundOperand* operand : memory_of(step.form.operands)) {
          if (operand->is_result) stored.push_back(reductions_[s].stages->stored_result(*operand));
        }
        outer_.add_results(step, text.statements(), stored);
      }
    }
    for (size_t i = 0; i < values_.values().size(); ++i) {
      const FusedValue& value = values_.values()[i];
      if (value.is_outer && value.depth == depth) outer_.need(i);
    }
    if (loop_.by_group()) body += outer_.text().substr(before);
  }

  Block elements() const {
    return {values_, [this](size_t view) { return loop_.element(view); }, outer_.known()};
  }

  void add_stage(std::string& body, size_t stage) {
    Block block = elements();
    std::string declarations, combinations;
    for (size_t s = 0; s < values_.steps().size(); ++s) {
      const FusedStep& step = values_.steps()[s];
      if (!step.reduces || stage < step.depth || stage >= step.depth + reductions_[s].stages->count()) continue;
      block.need_operands(step);
      const StageText text = reductions_[s].stages->next();
      block.add("{\n" + text.elements + "}\n");
      declarations += text.declarations;
      combinations += text.combinations;
      values_of_stage_ += text.values;
    }
    if (declarations.empty()) return;
    body += declarations + loop_.open_elements() + known() + block.text() + loop_.close_elements() + combinations;
  }

  void add_stores(std::string& body) {
    const auto of_elements = stores_of(values_, false), of_outer = stores_of(values_, true);
    if (!of_elements.empty()) {
      Block block = elements();
      for (const auto& [view, value] : of_elements) block.need(value);
      for (const auto& [view, value] : of_elements) {
        block.add(loop_.element(view) + " = " + values_.values()[value].name() + ";\n");
      }
      body += loop_.open_elements() + known() + block.text() + loop_.close_elements();
    }
    if (of_outer.empty()) return;
    std::string stores;
    for (const auto& [view, value] : of_outer) {
      stores += (loop_.by_group() ? "ONCE " : "") + loop_.result(view) + " = " + values_.values()[value].name() + ";\n";
    }
    // Threads may still read what is overwritten.
    body +=
        loop_.by_group() ? "GROUP_BARRIER;\n" + stores : loop_.open_lanes() + known() + stores + loop_.close_lanes();
  }

  const FusedValues& values_;
  const ReductionLoop& loop_;
  Block outer_;
  std::vector<Reduction> reductions_;
  size_t stages_ = 0;
  std::string values_of_stage_;
};

std::string function_name(const FusedBody& body) {
  std::string name = "fused";
  for (size_t s = 0; s < std::min<size_t>(body.steps.size(), 4); ++s) {
    name += "_" + body.steps[s].kernel.substr(body.steps[s].kernel.find('.') + 1);
  }
  return name;
}

template <typename Loop>
void add_calls(const Request& request, const FusedParts& parts, const Loop& loop, const std::string& body, Work& work) {
  const std::string name = function_name(parts.body);
  FunctionText function;
  parts.declare(function, loop);
  KernelParameters parameters = function.parameters();
  require(parameters.numbers.size() + 2 * parts.values.views().size() <= kMostParameters,
          "take so many operands and numbers in one function");
  std::string text = function.text(name, body);
  const std::string key = name + "/" + std::to_string(fnv1a(text)) + "/" + std::to_string(fnv1a(text, 1));
  const auto compiled = function_of(request, key, name, {[&] { return text; }, [&] { return parameters; }});
  const uint64_t launches = parts.loops() ? std::min<uint64_t>(parts.body.iterations, 1) : parts.body.iterations;
  for (uint64_t iteration = 0; iteration < launches; ++iteration) {
    Call& call = work.calls.emplace_back(compiled, loop.geometry());
    parts.give(call, loop, iteration);
  }
}

void check_iterations(const FusedBody& body, const FusedValues& values, bool reduces) {
  const bool apart = body.apart && !reduces;
  require(apart || body.iterations <= kMostLaunches, "run more than ", kMostLaunches,
          " iterations that see what others wrote, and there are ", body.iterations);
  for (const FusedView& view : values.views()) {
    const int64_t advance = body.advances.empty() ? 0 : body.advances[view.buffer];
    require(advance % dtype_size(view.dtype) == 0, "move an operand by ", advance, " bytes, no number of elements");
  }
}

}  // namespace

Work plan_fused(const Request& request) {
  FusedBody body = FusedBody::read(request.frame);
  const FusedValues values(request, body);
  const bool reduces = std::ranges::any_of(values.steps(), &FusedStep::reduces);
  check_iterations(body, values, reduces);
  Work work;
  if (kernels::is_empty(body.sizes)) {
    require(!reduces, "reduce no elements in a fused step");
    return work;
  }
  const size_t rank = body.sizes.size();
  if (!reduces) {
    const FusedParts parts{body, values};
    const ElementLoop loop(request, ViewBuffers(body, values.views(), 0, rank).extents(), names_of(values.views()));
    add_calls(request, parts, loop, element_body(parts, loop), work);
    return work;
  }
  body.apart = false;  // each iteration is a launch
  const FusedParts parts{body, values};
  size_t first = 0;
  while (first + 1 < values.views().size() && values.views()[first].is_written) ++first;
  const ReductionLoop loop(request, ViewBuffers(body, values.views(), 0, body.outer_rank).extents(),
                           ViewBuffers(body, values.views(), body.outer_rank, rank).extents(), names_of(values.views()),
                           first);
  add_calls(request, parts, loop, ReducingBody(values, loop).write(), work);
  return work;
}

}  // namespace mydev::device_kernels
