// Kernels that reduce: those of the contracts whose expression has a sum, a maximum or the like, over some dimensions
// of the operands, or over all.
//
// Reductions whose elements need others first (a variance needs the mean) come in stages, each of which goes through
// the elements once. Few results with many elements each have a group each, whose threads share the elements; many
// results with few elements, or with elements that lie side by side for neighbouring results, have a thread each. On
// GPUs the elements of few long results are parted among more groups (text/reduction_loop.h).
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "device_kernels/base/extents.h"
#include "device_kernels/text/expression_kernel.h"
#include "device_kernels/text/expression_stages.h"
#include "device_kernels/text/reduction_loop.h"

namespace mydev::device_kernels {

namespace {

constexpr size_t kMostBytes = 8;  // of a number that a part leaves

// Writes functions of a reduction: one for all of it; or, if its elements are parted, one for each of its stages, which
// leaves what each part has, and one that adds the last stage's parts and stores the results. Each of them adds the
// parts of the stages before its own.
class ReductionText {
 public:
  ReductionText(const ExpressionForm& form, const ReductionLoop& loop)
      : form_(form),
        loop_(loop),
        text_(form.contract->expression, form.domain, form.dtype),
        memory_(memory_of(form.operands)) {}

  // The function of all stages.
  std::pair<std::string, KernelParameters> whole() {
    begin(Range::kAll);
    for (size_t i = 0; i < stages_->count(); ++i) {
      const StageText stage = stages_->next();
      add(stage, loop_.open_elements() + known_ + stage.elements + loop_.close_elements());
    }
    return stored();
  }
  // The function of the parts of one stage.
  std::pair<std::string, KernelParameters> of_parts(size_t number) {
    begin(Range::kPart);
    for (size_t i = 0; i < number; ++i) add_parts(stages_->next());
    const StageText stage = stages_->next();
    std::string kept;
    for (const Accumulator& accumulator : stage.accumulators) {
      for (const auto& [name, type] : accumulator.fields()) function_.add_result(type, "m_" + name);
      kept += accumulator.keep(loop_.by_group() ? "0" : "lane", loop_.place_in_parts("part"));
    }
    body_ += stage.declarations + loop_.open_elements(Range::kPart) + known_ + stage.elements +
             loop_.close_elements(Range::kPart) + stage.combinations;
    body_ += loop_.by_group() ? "ONCE {\n" + kept + "}\n" : loop_.open_lanes() + kept + loop_.close_lanes();
    return finished();
  }
  // The function that stores the results of all stages' parts.
  std::pair<std::string, KernelParameters> of_results() {
    begin(Range::kAll);
    for (size_t i = 0; i < stages_->count(); ++i) add_parts(stages_->next());
    return stored();
  }
  // How many numbers the parts of a stage leave.
  static std::vector<size_t> numbers_of_stages(const ExpressionForm& form, const ReductionLoop& loop) {
    ReductionText text(form, loop);
    text.begin(Range::kAll);
    std::vector<size_t> numbers(text.stages_->count());
    for (size_t& number : numbers) {
      for (const Accumulator& accumulator : text.stages_->next().accumulators) number += accumulator.fields().size();
    }
    return numbers;
  }

 private:
  using Range = ReductionLoop::Range;

  void begin(Range range) {
    for (size_t b = 0; b < memory_.size(); ++b) {
      const BoundOperand& operand = *memory_[b];
      const std::string& name = operand.contract->name;
      if (operand.is_result) {
        if (range == Range::kAll) function_.add_result(memory_type(operand.dtype), "m_" + name);
        continue;
      }
      function_.add_operand(memory_type(operand.dtype), "m_" + name);
      auto [statement, value] = load(operand, loop_.element(b), form_.domain);
      text_.bind_late(name, std::move(statement), std::move(value));
    }
    loop_.declare(function_);
    form_.declare_numbers(function_);
    form_.bind_numbers(text_);
    body_ = (loop_.by_group() ? "SCRATCH;\n" : "") + loop_.open_results(range);
    stages_ = std::make_unique<ExpressionStages>(form_, StageLoop(loop_), text_, "acc");
  }
  void add(const StageText& stage, const std::string& loop) {
    body_ += stage.declarations + loop + stage.combinations;
    (loop_.by_group() ? body_ : known_) += stage.values;
  }
  void add_parts(const StageText& stage) {
    std::string added;
    for (const Accumulator& accumulator : stage.accumulators) {
      for (const auto& [name, type] : accumulator.fields()) function_.add_operand(type, "m_" + name);
      added += accumulator.add_kept(loop_.place_in_parts("part_at"));
    }
    add(stage, loop_.open_parts() + added + loop_.close_parts());
  }
  std::pair<std::string, KernelParameters> stored() {
    text_.begin_block();
    std::string stores;
    for (size_t b = 0; b < memory_.size() && memory_[b]->is_result; ++b) {
      const std::string value = stages_->stored_result(*memory_[b]);
      stores += (loop_.by_group() ? "ONCE " : "") + loop_.result(b) + " = " + value + ";\n";
    }
    const std::string last = known_ + text_.statements() + stores;
    body_ += loop_.by_group() ? last : loop_.open_lanes() + last + loop_.close_lanes();
    return finished();
  }
  std::pair<std::string, KernelParameters> finished() {
    return {function_.text(form_.function_name(), body_ + loop_.close_results()), function_.parameters()};
  }

  const ExpressionForm& form_;
  const ReductionLoop& loop_;
  FunctionText function_;
  ExpressionText text_;
  std::vector<const BoundOperand*> memory_;
  std::unique_ptr<ExpressionStages> stages_;
  std::string body_, known_;  // known_: of lanes, which each loop over them begins with
};

// The calls of a reduction.
class ReductionCalls {
 public:
  ReductionCalls(const Request& request, const BoundFrame& frame, const ExpressionForm& form, const ReductionLoop& loop,
                 Work& work)
      : request_(request), frame_(frame), form_(form), loop_(loop), work_(work), memory_(memory_of(frame.operands())) {}

  void add_whole() {
    Call call = made("", ReductionLoop::Range::kAll, &ReductionText::whole);
    give_memory(call, true);
    give_memory(call, false);
    finish(std::move(call));
  }
  // Parts leave their numbers in scratch: those of each stage behind those of the stage before.
  void add_parted() {
    const std::vector<size_t> numbers = ReductionText::numbers_of_stages(form_, loop_);
    size_t known = 0;
    for (size_t stage = 0; stage < numbers.size(); ++stage) {
      Call call = made("/parts" + std::to_string(stage), ReductionLoop::Range::kPart,
                       [stage](ReductionText& text) { return text.of_parts(stage); });
      give_scratch(call, known, known + numbers[stage]);
      give_memory(call, false);
      give_scratch(call, 0, known);
      finish(std::move(call));
      known += numbers[stage];
    }
    Call call = made("/results", ReductionLoop::Range::kAll, &ReductionText::of_results);
    give_memory(call, true);
    give_memory(call, false);
    give_scratch(call, 0, known);
    finish(std::move(call));
    work_.scratch_bytes = std::max(work_.scratch_bytes, known * bytes_of_number());
  }

 private:
  uint64_t bytes_of_number() const { return static_cast<uint64_t>(loop_.results() * loop_.parts()) * kMostBytes; }

  template <typename Write>
  Call made(const std::string& kind, ReductionLoop::Range range, const Write& write) const {
    const auto text = [&] {
      ReductionText written(form_, loop_);
      return std::invoke(write, written);
    };
    return {expression_function(request_, form_, loop_.form() + kind, text), loop_.geometry(range)};
  }
  void give_memory(Call& call, bool of_results) const {
    for (const BoundOperand* operand : memory_) {
      if (operand->is_result == of_results) call.give(Call::Memory{operand->buffer});
    }
  }
  void give_scratch(Call& call, size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i) call.give(Call::Memory{.offset = i * bytes_of_number()});
  }
  void finish(Call call) {
    loop_.give(call);
    form_.give_numbers(call, frame_);
    work_.calls.push_back(std::move(call));
  }

  const Request& request_;
  const BoundFrame& frame_;
  const ExpressionForm& form_;
  const ReductionLoop& loop_;
  Work& work_;
  std::vector<const BoundOperand*> memory_;
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
  const auto is_outer = [&](const Dimension& dimension) {
    return std::any_of(dimension.strides.begin(), dimension.strides.begin() + static_cast<ptrdiff_t>(results),
                       [](int64_t stride) { return stride != 0; });
  };
  const auto is_reduced = [&](const Dimension& dimension) { return !is_outer(dimension); };
  ReductionLoop loop(request, extents.taken(is_outer), extents.taken(is_reduced), names,
                     std::min(results, names.size() - 1));
  if (loop.results() == 0) return;
  form.count = loop.elements();
  loop.part();
  ReductionCalls calls(request, frame, form, loop, work);
  if (loop.parts() == 1) {
    calls.add_whole();
  } else {
    calls.add_parted();
  }
}

}  // namespace mydev::device_kernels
