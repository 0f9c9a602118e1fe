#include "program/record/recorded_memory.h"

#include <algorithm>
#include <utility>

#include "kernels/spec/contract.h"
#include "program/ir/access.h"
#include "runtime/driver/kernel_module.h"

namespace mydev::program {

namespace {

constexpr SlotIndex kNone = UINT32_MAX;

template <typename Visit>
void for_each_operand(std::vector<Step>& steps, const Visit& visit) {
  for (Step& step : steps) {
    for (Operand& operand : step.results) visit(operand, true);
    for (Operand& operand : step.operands) visit(operand, false);
  }
}

// True if a step is known not to read the old values of its results.
bool only_writes(const Step& step) {
  if (step.kind == StepKind::kCopy || step.kind == StepKind::kFill) return true;
  if (step.compiled != nullptr) return step.compiled->kernel->parameters().updated == 0;
  const KernelContract* contract = step.kind == StepKind::kLaunch ? builtin_contract(step.name) : nullptr;
  return contract != nullptr && contract->is_pointwise() &&
         std::ranges::none_of(contract->results, &ContractOperand::is_updated);
}

}  // namespace

RecordedMemory::RecordedMemory(std::vector<Step> steps, const Signature& signature)
    : steps_(std::move(steps)), signature_(signature) {
  find_ranges();
  drop_undefined_steps();
  drop_dead_steps();
  find_ranges();  // of what is left
}

void RecordedMemory::find_ranges() {
  ranges_.clear();
  std::vector<Range> ranges;
  for (const Reservation& reservation : signature_.reserved) {
    const auto begin = reinterpret_cast<int64_t>(reservation.data);
    ranges.push_back({.begin = begin, .end = begin + static_cast<int64_t>(reservation.bytes), .reserved = true});
  }
  for_each_operand(steps_, [&](const Operand& operand, bool written) {
    const auto [begin, end] = bytes_touched(operand);
    if (begin >= end) return;
    const Operand* whole = is_dense(operand) && std::ranges::count(operand.sizes, 0) == 0 ? &operand : nullptr;
    ranges.push_back({.begin = begin, .end = end, .whole = whole, .written = written});
  });
  std::ranges::stable_sort(ranges, {}, &Range::begin);
  for (const Range& range : ranges) {
    if (ranges_.empty() || range.begin >= ranges_.back().end) {
      ranges_.push_back(range);
      continue;
    }
    Range& last = ranges_.back();
    last.written |= range.written;
    if (range.end > last.end) {
      last.whole = range.begin == last.begin ? range.whole : nullptr;
      last.end = range.end;
    } else if (last.whole == nullptr && range.begin == last.begin && range.end == last.end) {
      last.whole = range.whole;
    }
  }
  for (Range& range : ranges_) range.given = !range.reserved;
  for (const std::vector<const void*>* given : {&signature_.parameters, &signature_.results}) {
    for (const void* data : *given) {
      if (data != nullptr) range_of(data).given = true;
    }
  }
}

RecordedMemory::Range& RecordedMemory::range_of(const void* data) {
  const auto after = std::ranges::upper_bound(ranges_, reinterpret_cast<int64_t>(data), {}, &Range::begin);
  return *(after - 1);
}

std::optional<size_t> RecordedMemory::range_of(const Operand& operand) const {
  const auto [begin, end] = bytes_touched(operand);
  if (begin >= end) return std::nullopt;
  const auto after = std::ranges::upper_bound(ranges_, begin, {}, &Range::begin);
  return static_cast<size_t>(after - ranges_.begin()) - 1;
}

// True if only the program sees the operand's memory.
bool RecordedMemory::is_private(const Operand& operand) const {
  const std::optional<size_t> range = range_of(operand);
  return range && !ranges_[*range].given;
}

void RecordedMemory::drop_undefined_steps() {
  std::vector<bool> defined(ranges_.size());
  std::erase_if(steps_, [&](const Step& step) {
    if (step.kind == StepKind::kCollective) return false;  // other devices wait for it
    const auto is_undefined = [&](const Operand& operand) {
      return is_private(operand) && !defined[*range_of(operand)];
    };
    const auto is_read = [&](const Operand& operand) { return range_of(operand).has_value(); };
    const bool undefined =
        std::ranges::any_of(step.operands, is_read) &&
        std::ranges::all_of(step.operands,
                            [&](const Operand& operand) { return !is_read(operand) || is_undefined(operand); }) &&
        std::ranges::all_of(step.results, is_undefined);
    if (undefined) return true;
    for (const Operand& result : step.results) {
      if (const std::optional<size_t> range = range_of(result)) defined[*range] = true;
    }
    return false;
  });
}

void RecordedMemory::drop_dead_steps() {
  std::vector<bool> read(ranges_.size());  // by a later step, before it is written anew
  std::vector<bool> dead(steps_.size());
  for (size_t i = steps_.size(); i-- > 0;) {
    const std::vector<Access> accesses = accesses_of(steps_[i]);
    const bool is_for_others = steps_[i].results.empty() || steps_[i].kind == StepKind::kCollective;
    dead[i] = !is_for_others && std::ranges::all_of(accesses, [&](const Access& access) {
      return !access.writes || range_of(*access.operand) == std::nullopt ||
             (is_private(*access.operand) && !read[*range_of(*access.operand)]);
    });
    if (dead[i]) continue;
    for (const Operand& result : steps_[i].results) {
      const std::optional<size_t> range = range_of(result);
      if (!range || !only_writes(steps_[i]) || !is_dense(result)) continue;
      if (bytes_touched(result) == std::pair(ranges_[*range].begin, ranges_[*range].end)) read[*range] = false;
    }
    for (const Access& access : accesses) {
      if (const std::optional<size_t> range = range_of(*access.operand); range && access.reads) read[*range] = true;
    }
  }
  size_t index = 0;
  std::erase_if(steps_, [&](const Step&) { return dead[index++]; });
}

SharedProgram RecordedMemory::build(const std::string& name) {
  ProgramBuilder builder(name);
  add_slots(builder);
  if (builder.slots().empty() && !steps_.empty()) {  // for views without elements
    builder.parameter(MYDEV_U8, {0});
    other_parameters_.emplace_back();
  }
  for_each_operand(steps_, [&](Operand& operand, bool /*written*/) { bind(operand); });
  for (Step& step : steps_) builder.add(std::move(step));
  return std::move(builder).build();
}

// Memory that is not reserved stays at the address that it had during the recording.
void RecordedMemory::add_slots(ProgramBuilder& builder) {
  slots_.assign(ranges_.size(), kNone);
  const auto index_of = [&](const void* data) { return static_cast<size_t>(&range_of(data) - ranges_.data()); };
  for (const void* data : signature_.parameters) {
    add_parameter(builder, index_of(data), std::ranges::find(signature_.donated, data) != signature_.donated.end());
  }
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const Range& range = ranges_[i];
    if (range.reserved) continue;
    add_parameter(builder, i, /*donated=*/false);
    other_parameters_.push_back({reinterpret_cast<void*>(range.begin), static_cast<uint64_t>(range.end - range.begin)});
  }
  std::vector<bool> touched(ranges_.size());
  for_each_operand(steps_, [&](const Operand& operand, bool /*written*/) {
    if (const std::optional<size_t> range = range_of(operand)) touched[*range] = true;
  });
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (slots_[i] != kNone || !touched[i]) continue;
    const Range& range = ranges_[i];
    slots_[i] = range.whole != nullptr ? builder.temporary(range.whole->dtype, range.whole->sizes)
                                       : builder.temporary(MYDEV_U8, {range.end - range.begin});
  }
  for (size_t i = 0; i < signature_.results.size(); ++i) {
    const void* data = signature_.results[i];
    if (data == nullptr || !touched[index_of(data)]) continue;
    builder.returns(slots_[index_of(data)]);
    written_results_.push_back(i);
  }
}

void RecordedMemory::add_parameter(ProgramBuilder& builder, size_t index, bool donated) {
  const Range& range = ranges_[index];
  donated = donated || range.written;
  slots_[index] = range.whole != nullptr ? builder.parameter(range.whole->dtype, range.whole->sizes, donated)
                                         : builder.parameter(MYDEV_U8, {range.end - range.begin}, donated);
  const bool is_returned = range.written && std::ranges::none_of(signature_.donated, [&](const void* data) {
                             return reinterpret_cast<int64_t>(data) == range.begin;
                           });
  if (is_returned) builder.returns(slots_[index]);
}

// Turns the operand, whose offset is an address, into a view of its slot.
void RecordedMemory::bind(Operand& operand) const {
  if (const std::optional<size_t> range = range_of(operand)) {
    operand.slot = slots_[*range];
    operand.offset -= static_cast<uint64_t>(ranges_[*range].begin);
  } else if (operand.kind == Operand::kView) {
    operand.offset = 0;  // without elements: of any slot
  }
}

}  // namespace mydev::program
