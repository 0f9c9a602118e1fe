#include "program/transform/fusible_run.h"

#include <algorithm>
#include <string_view>

#include "kernels/spec/contract.h"
#include "program/ir/access.h"
#include "program/transform/reshape.h"

namespace mydev::program {

namespace {

// With fewer rows, the kernel cuts them itself if they have kLongestRow elements together.
constexpr int64_t kFewRows = 16;

bool is_plain(const ContractOperand& operand) {
  return !operand.is_list && !operand.is_updated &&
         (operand.layout == ContractLayout::kStrided || operand.layout == ContractLayout::kReduced);
}

// True if a result is a position along one dimension, which must not be split.
bool gives_positions(const Expression& expression) {
  return std::ranges::any_of(expression.nodes(), [](const Expression::Node& node) {
    return node.function != nullptr && std::string_view(node.function->name).starts_with("arg");
  });
}

// Returns nullptr if the step cannot go with others.
const KernelContract* contract_of(const Step& step) {
  if (step.kind != StepKind::kLaunch || step.lane != 0 || !step.after.empty()) return nullptr;
  const KernelContract* contract = builtin_contract(step.name);
  if (contract == nullptr || !std::ranges::all_of(contract->results, is_plain) ||
      !std::ranges::all_of(contract->operands, is_plain)) {
    return nullptr;
  }
  const bool reduces = contract->is_reduction() && !gives_positions(contract->expression);
  return reduces || contract->is_pointwise() ? contract : nullptr;
}

// Returns the sizes of all operands of the step that are present; nullptr if they differ.
const std::vector<int64_t>* sizes_of(const Step& step) {
  const std::vector<int64_t>* sizes = nullptr;
  for (const auto* operands : {&step.results, &step.operands}) {
    for (const Operand& operand : *operands) {
      if (operand.kind == Operand::kAbsent) continue;
      if (sizes == nullptr) sizes = &operand.sizes;
      if (operand.sizes != *sizes) return nullptr;
    }
  }
  return sizes;
}

// Returns how many elements go into each result of a reduction; 0 if the reduced dimensions are not the last ones.
int64_t reduced_elements(const Operand& result) {
  int64_t count = 1;
  size_t d = result.sizes.size();
  for (; d > 0 && (result.sizes[d - 1] == 1 || result.strides[d - 1] == 0); --d) count *= result.sizes[d - 1];
  for (; d > 0; --d) {
    if (result.sizes[d - 1] != 1 && result.strides[d - 1] == 0) return 0;
  }
  return count;
}

// True if the view has rows without gaps, which need not follow each other.
bool has_dense_rows(const Operand& view, size_t outer_rank) {
  int64_t expected = 1;
  for (size_t d = view.sizes.size(); d-- > outer_rank; expected *= view.sizes[d]) {
    if (view.strides[d] != expected) return false;
  }
  return std::find(view.strides.begin(), view.strides.begin() + static_cast<std::ptrdiff_t>(outer_rank), 0) ==
         view.strides.begin() + static_cast<std::ptrdiff_t>(outer_rank);
}

}  // namespace

std::optional<FusibleRun> FusibleRun::of(const Program& program) {
  FusibleRun run(program);
  const bool is_one = std::ranges::all_of(program.steps(), [&](const Step& step) { return run.add(step); });
  return is_one ? std::optional(std::move(run)) : std::nullopt;
}

bool FusibleRun::is_repeatable(const Program& program) {
  return of(program) && std::ranges::count(program.slots(), SlotKind::kConstant, &Slot::kind) == 0;
}

bool FusibleRun::add(const Step& step) {
  const KernelContract* contract = contract_of(step);
  if (!is_open_ || contract == nullptr || sizes_of(step) == nullptr) return false;
  // The step may change these. They are saved to restore them.
  const std::vector<int64_t> sizes = sizes_;
  const size_t outer_rank = outer_rank_;
  std::map<SlotIndex, Use> uses;
  for (const Access& access : accesses_of(step)) {
    const auto found = uses_.find(access.operand->slot);
    if (found != uses_.end()) uses.insert(*found);
  }
  if (contract->is_reduction() ? add_reduction(step) : add_pointwise(step)) {
    ++steps_;
    return true;
  }
  for (const Access& access : accesses_of(step)) uses_.erase(access.operand->slot);
  uses_.merge(uses);
  sizes_ = sizes;
  outer_rank_ = outer_rank;
  return false;
}

void FusibleRun::begin_with(const Step& step) {
  if (!add(step)) is_open_ = false;
  steps_ = 1;
}

bool FusibleRun::add_pointwise(const Step& step) {
  const auto is_there = [](const Operand& operand) { return operand.kind != Operand::kAbsent; };
  // A step reads before it writes.
  return std::ranges::all_of(step.operands, is_there) && std::ranges::all_of(step.results, is_there) &&
         refine(*sizes_of(step)) &&
         std::ranges::all_of(step.operands, [&](const Operand& read) { return use(read, false); }) &&
         std::ranges::all_of(step.results, [&](const Operand& written) { return use(written, true); });
}

bool FusibleRun::add_reduction(const Step& step) {
  const std::vector<int64_t>& sizes = *sizes_of(step);
  const int64_t count = count_elements(sizes);
  int64_t row = 0;
  for (const Operand& result : step.results) {
    if (result.kind == Operand::kAbsent) continue;
    if (row != 0 && row != reduced_elements(result)) return false;
    row = reduced_elements(result);
  }
  if (count == 0 || row < 2 || row >= kLongestRow || (count / row < kFewRows && count >= kLongestRow)) return false;
  if (reduces() && outer_elements() != count / row) return false;
  if (!refine(sizes) || !refine({count / row, row})) return false;
  keep(count / row);
  const auto is_read = [&](const Operand& operand) {
    return operand.kind == Operand::kView && has_dense_rows(reshaped(operand, sizes_), outer_rank_) &&
           use(operand, false);
  };
  const auto is_written = [&](const Operand& result) { return use(without_reduced(result), true); };
  return std::ranges::all_of(step.operands, is_read) && std::ranges::all_of(step.results, is_written);
}

// Splits the run's dimensions so that these sizes can be expressed in them, as the whole shape or as its outer
// dimensions.
bool FusibleRun::refine(const std::vector<int64_t>& sizes) {
  if (steps_ == 0 && sizes_.empty()) {
    sizes_ = without_ones(sizes);
    outer_rank_ = sizes_.size();
    return true;
  }
  const bool is_outer = reduces() && count_elements(sizes) == outer_elements();
  std::optional<std::vector<int64_t>> refined = common_refinement(is_outer ? outer_sizes() : sizes_, sizes);
  if (!refined) return false;
  if (is_outer)
    refined->insert(refined->end(), sizes_.begin() + static_cast<std::ptrdiff_t>(outer_rank_), sizes_.end());
  const int64_t outer_rank = outer_elements();
  const bool reduced = reduces();
  sizes_ = std::move(*refined);
  outer_rank_ = sizes_.size();
  if (reduced) keep(outer_rank);
  return true;
}

void FusibleRun::keep(int64_t elements) {
  for (outer_rank_ = 0; outer_elements() != elements;) ++outer_rank_;
}

bool FusibleRun::use(const Operand& operand, bool writes) {
  if (operand.kind != Operand::kView) return true;
  Operand view = reshaped(operand, shape_of(operand));
  view.sizes.resize(sizes_.size());
  view.strides.resize(sizes_.size());
  std::copy(sizes_.begin(), sizes_.end(), view.sizes.begin());
  view = flattened(view);
  const auto [found, first] = uses_.try_emplace(operand.slot);
  Use& use = found->second;
  use.several = use.several || (!first && !(same_place(use.view, view) && use.view.dtype == view.dtype));
  use.read_first = use.read_first || (!writes && !use.written);
  use.written = use.written || writes;
  use.view = std::move(view);
  // All steps must use the same elements of a slot that is written. They must be all of it, unless it is a parameter,
  // which held something before.
  const Slot& slot = program_->slots()[operand.slot];
  const auto [begin, end] = bytes_touched(operand);
  const bool covers = is_dense(operand) && end - begin == static_cast<int64_t>(slot.bytes());
  use.covers = use.covers || (writes && covers);
  return !use.written || (!use.several && (use.covers || slot.kind == SlotKind::kParameter));
}

Step FusibleRun::in_its_sizes(const Step& step) const {
  Step copy = step;
  for (auto* operands : {&copy.results, &copy.operands}) {
    for (Operand& operand : *operands) operand = reshaped(operand, shape_of(operand));
  }
  return copy;
}

Operand FusibleRun::without_reduced(const Operand& result) const {
  Operand view = reshaped(result, sizes_);
  if (view.kind == Operand::kAbsent) return view;
  view.sizes.resize(outer_rank_);
  view.strides.resize(outer_rank_);
  return view;
}

int64_t FusibleRun::outer_elements() const {
  return count_elements(outer_sizes());
}

std::vector<int64_t> FusibleRun::outer_sizes() const {
  return {sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(outer_rank_)};
}

std::vector<int64_t> FusibleRun::shape_of(const Operand& operand) const {
  return count_elements(operand.sizes) == count_elements(sizes_) ? sizes_ : outer_sizes();
}

}  // namespace mydev::program
