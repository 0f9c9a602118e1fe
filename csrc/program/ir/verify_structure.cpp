// The checks of a program by itself.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "program/ir/access.h"
#include "program/ir/names.h"
#include "program/ir/verify.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"

namespace mydev::program {

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 56;  // of a slot: offsets into it do not overflow
constexpr size_t kMostDimensions = 64;

std::string quoted(const std::string& name) {
  return "'" + name + "'";
}

class StructureCheck {
 public:
  explicit StructureCheck(const Program& program) : program_(program), defined_(program.slots().size()) {}

  void run() {
    require(is_name(program_.name()), "the name of a program is an identifier and no word of its text");
    for (const Slot& slot : program_.slots()) check_slot(slot);
    for (size_t i = 0; i < defined_.size(); ++i) {
      const Slot& slot = program_.slots()[i];
      defined_[i] = slot.kind == SlotKind::kParameter || slot.kind == SlotKind::kConstant || slot.bytes() == 0;
    }
    for (step_ = 0; step_ < program_.steps().size(); ++step_) check_step(program_.steps()[step_]);
    check_results();
    std::set<std::string> programs;
    for (const Program* called : programs_of(program_)) {
      require(programs.insert(called->name()).second, "two programs are called ", quoted(called->name()),
              "; the text of programs tells them apart by their names");
    }
  }

 private:
  // Raises unless `holds`. The message begins with the step, if it is about one.
  template <typename... Parts>
  void require(bool holds, const Parts&... what) const {
    if (holds) [[likely]]
      return;
    const bool of_step = step_ < program_.steps().size();
    mydev::detail::raise_formatted(MYDEV_INVALID_ARGUMENT,
                                   of_step ? describe_step(program_, step_) : "program " + quoted(program_.name()),
                                   ": ", what...);
  }
  const Slot& slot_of(const Operand& view) const { return program_.slots()[view.slot]; }

  // --- slots ---

  void check_slot(const Slot& slot) {
    require(is_name(slot.name), "the name of slot ", quoted(slot.name),
            " is no identifier, or a word of the text of programs");
    require(names_.insert(slot.name).second, "two slots are called ", quoted(slot.name));
    auto bytes = static_cast<int64_t>(dtype_row(slot.dtype).size);
    require(bytes > 0, "slot ", quoted(slot.name), " has a dtype that memory does not hold");
    for (const int64_t size : slot.sizes) {
      require(size >= 0, "slot ", quoted(slot.name), " has the size ", size);
      require(!__builtin_mul_overflow(bytes, size, &bytes) && bytes <= kMostBytes, "slot ", quoted(slot.name),
              " has more bytes than there can be");
    }
    const bool may_be_on_host = slot.kind == SlotKind::kResult || (slot.kind == SlotKind::kParameter && !slot.donated);
    require(!slot.on_host || may_be_on_host, "slot ", quoted(slot.name),
            " is on the host: parameters that are not donated, and results, can be there");
    if (slot.kind != SlotKind::kConstant) return;
    require(slot.devices != 0, "constant ", quoted(slot.name), " has data for no device");
    require(slot.data.size() == slot.devices * slot.bytes(), "constant ", quoted(slot.name), " has ", slot.data.size(),
            " bytes of data, and takes ", slot.devices * slot.bytes());
  }

  void check_results() const {
    std::set<SlotIndex> seen;
    for (const SlotIndex index : program_.results()) {
      const Slot& slot = program_.slots()[index];
      require(slot.kind == SlotKind::kResult || slot.kind == SlotKind::kParameter, "result ", quoted(slot.name),
              " is a constant; copy it into a slot of its own");
      require(seen.insert(index).second, "slot ", quoted(slot.name), " is a result twice");
      require(defined_[index], "result ", quoted(slot.name), " is written by no step");
    }
  }

  // --- operands ---

  void check_operand(const Operand& operand) const {
    require(operand.sizes.size() == operand.strides.size(), "an operand has ", operand.sizes.size(), " sizes and ",
            operand.strides.size(), " strides");
    require(operand.sizes.size() <= kMostDimensions, "an operand has ", operand.sizes.size(), " dimensions");
    for (const int64_t size : operand.sizes) require(size >= 0, "an operand has the size ", size);
    if (operand.kind == Operand::kAbsent) return;
    const int64_t element = dtype_row(operand.dtype).size;
    require(element > 0, "an operand has a dtype that memory does not hold");
    if (operand.kind == Operand::kNumber) return;
    require(operand.slot < program_.slots().size(), "there is no slot ", operand.slot, "; the program has ",
            program_.slots().size());
    const Slot& slot = slot_of(operand);
    for (size_t d = 0; d < operand.sizes.size(); ++d) {
      int64_t reach = 0;
      require(!__builtin_mul_overflow(operand.sizes[d], operand.strides[d] * (operand.sizes[d] > 1 ? 1 : 0), &reach) &&
                  std::abs(reach) <= kMostBytes,
              "a view of ", quoted(slot.name), " reaches further than any memory");
    }
    const auto [begin, end] = bytes_touched(operand);
    require(operand.offset <= slot.bytes() && begin >= 0 && end <= static_cast<int64_t>(slot.bytes()),
            "the view touches bytes ", begin, " to ", end, " of ", quoted(slot.name), ", which has ", slot.bytes());
    require(operand.offset % static_cast<uint64_t>(std::min<int64_t>(element, 8)) == 0, "the view of ",
            quoted(slot.name), " begins at byte ", operand.offset, ", where no ", dtype_row(operand.dtype).name,
            " may lie");
  }

  void check_access(const Step& step, const Access& access) const {
    const Slot& slot = slot_of(*access.operand);
    require(!slot.on_host || step.kind == StepKind::kCopy, quoted(slot.name),
            " is on the host, where copies alone read and write");
    if (access.reads) {
      require(defined_[access.operand->slot], quoted(slot.name), " is read before a step has written it");
    }
    if (!access.writes) return;
    require(slot.kind != SlotKind::kConstant, "constant ", quoted(slot.name), " is written");
    const bool may_be_written = slot.kind != SlotKind::kParameter || slot.donated || !has_elements(*access.operand);
    require(may_be_written, "parameter ", quoted(slot.name), " is written, but not donated");
  }

  // --- steps ---

  void check_step(const Step& step) {
    for (const auto* operands : {&step.results, &step.operands}) {
      for (const Operand& operand : *operands) check_operand(operand);
    }
    check_operand(step.predicate);
    for (const Operand& result : step.results) require(result.kind != Operand::kNumber, "a number is written");
    for (const StepIndex earlier : step.after) {
      require(earlier < step_, "it waits for step ", earlier, ", which is not before it: waits would go in a circle");
    }
    require(step.kind == StepKind::kRepeat || step.advances.empty(),
            "operands move from iteration to iteration, and there are ", "no iterations that are counted");
    check_kind(step);
    for (const Access& access : accesses_of(step)) check_access(step, access);
    for (size_t i = 0; step.program != nullptr && i < step.operands.size(); ++i) {
      if (is_consumed(*step.program, i)) defined_[step.operands[i].slot] = false;
    }
    for (const Operand& result : step.results) {
      if (result.kind == Operand::kView) defined_[result.slot] = true;
    }
  }

  void check_kind(const Step& step) const {
    switch (step.kind) {
      case StepKind::kLaunch:
        return require(!step.name.empty(), "a launch has no kernel");
      case StepKind::kCopy:
        return check_copy(step);
      case StepKind::kFill:
        return check_fill(step);
      case StepKind::kHostCall:
        return require(step.function != nullptr && *step.function != nullptr, "the host call has no function");
      case StepKind::kCollective:
        return require(step.collective != nullptr && *step.collective != nullptr, "the collective has no function");
      case StepKind::kCall:
      case StepKind::kFused:
        return check_call(step);
      case StepKind::kRepeat:
        check_advances(step);
        check_call(step);
        return check_loop(*step.program);
      case StepKind::kWhile:
        check_call(step);
        check_predicate(step);
        return check_loop(*step.program);
      case StepKind::kIf:
        check_call(step);
        check_predicate(step);
        return check_otherwise(step);
    }
  }

  void check_copy(const Step& step) const {
    require(step.results.size() == 1 && step.operands.size() == 1 && step.results[0].kind == Operand::kView &&
                step.operands[0].kind == Operand::kView,
            "a copy has one view to write and one to read");
    const Operand &to = step.results[0], &from = step.operands[0];
    require(to.dtype == from.dtype && to.sizes == from.sizes, "a copy is between views of one dtype and sizes");
    const bool to_host = slot_of(to).on_host, from_host = slot_of(from).on_host;
    require(!to_host || !from_host, "a copy is from ", quoted(slot_of(from).name), " to ", quoted(slot_of(to).name),
            ", and both are on the host; one side is the device's");
    require((!to_host && !from_host) || (is_dense(to) && is_dense(from)),
            "a copy between the host and the device is of views without gaps");
    require(!surely_overlap(to, from), "a copy within ", quoted(slot_of(to).name), " overlaps itself");
  }

  void check_fill(const Step& step) const {
    require(step.results.size() == 1 && step.operands.empty() && step.results[0].kind == Operand::kView &&
                is_dense(step.results[0]),
            "a fill has one dense view to write");
    const size_t pattern = step.pattern.size();
    require(pattern == 1 || pattern == 2 || pattern == 4 || pattern == 8 || pattern == 16, "the pattern of a fill has ",
            pattern, " bytes; give 1, 2, 4, 8 or 16");
    const auto [begin, end] = bytes_touched(step.results[0]);
    require(static_cast<size_t>(end - begin) % pattern == 0, "a pattern of ", pattern, " bytes does not fill ",
            end - begin);
  }

  void check_predicate(const Step& step) const {
    const Operand& predicate = step.predicate;
    const auto [begin, end] = bytes_touched(predicate);
    require(predicate.kind == Operand::kView && end - begin == 1, "it goes by a view of ", end - begin,
            " bytes; give one byte, as of pred[]");
  }

  // The called program takes these operands and gives these results.
  void check_call(const Step& step) const {
    require(step.program != nullptr, "there is no program to call");
    const Program& called = *step.program;
    check_operands_of_call("parameter", called, called.parameters(), step.operands);
    check_operands_of_call("result", called, called.own_results(), step.results);
    const std::vector<Access> accesses = accesses_of(step);
    for (size_t i = 0; i < accesses.size(); ++i) {
      for (size_t j = 0; j < accesses.size(); ++j) {
        const bool predicate = accesses[j].operand == &step.predicate || accesses[i].operand == &step.predicate;
        require(i == j || predicate || !accesses[i].writes ||
                    !overlap_in_an_iteration(step, *accesses[i].operand, *accesses[j].operand),
                quoted(slot_of(*accesses[i].operand).name), " is given twice, and written");
      }
    }
  }

  // True if two results or operands of a call may overlap in an iteration. Views that move by the same bytes overlap in
  // the first iteration or never.
  static bool overlap_in_an_iteration(const Step& step, const Operand& a, const Operand& b) {
    const int64_t advance_a = advance_of(step, a), advance_b = advance_of(step, b);
    if (advance_a == advance_b) return surely_overlap(a, b);
    const auto [a_begin, a_end] = bytes_in_iterations(step, a, advance_a);
    const auto [b_begin, b_end] = bytes_in_iterations(step, b, advance_b);
    return a.slot == b.slot && a_begin < b_end && b_begin < a_end;
  }
  static int64_t advance_of(const Step& step, const Operand& operand) {
    const Operand* first = step.operands.data();
    const bool is_operand = &operand >= first && &operand < first + step.operands.size();
    return is_operand ? step.advance(static_cast<size_t>(&operand - first)) : 0;
  }
  // Returns the bytes of the slot that the operand touches in all iterations. The advance has been checked.
  static std::pair<int64_t, int64_t> bytes_in_iterations(const Step& step, const Operand& operand, int64_t advance) {
    const auto [begin, end] = bytes_touched(operand);
    const int64_t moved = step.count > 1 ? advance * static_cast<int64_t>(step.count - 1) : 0;
    return {begin + std::min<int64_t>(moved, 0), end + std::max<int64_t>(moved, 0)};
  }

  void check_advances(const Step& step) const {
    if (step.advances.empty()) return;
    require(step.advances.size() == step.operands.size(), "it is said of ", step.advances.size(),
            " operands by how many bytes they move, and there are ", step.operands.size());
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const Operand& operand = step.operands[i];
      const int64_t advance = step.advances[i];
      if (advance == 0) continue;
      require(operand.kind == Operand::kView, "an operand that is no view moves from iteration to iteration");
      const Slot& slot = slot_of(operand);
      require(advance % std::min<int64_t>(dtype_row(operand.dtype).size, 8) == 0, "the view of ", quoted(slot.name),
              " moves by ", advance, " bytes, to where no ", dtype_row(operand.dtype).name, " may lie");
      int64_t moved = 0;
      const uint64_t moves = step.count == 0 ? 0 : step.count - 1;
      require(!__builtin_mul_overflow(advance, moves, &moved) && std::abs(moved) <= kMostBytes, "the view of ",
              quoted(slot.name), " moves further than any memory");
      const auto [begin, end] = bytes_in_iterations(step, operand, advance);
      require(begin == end || (begin >= 0 && end <= static_cast<int64_t>(slot.bytes())), "the view touches bytes ",
              begin, " to ", end, " of ", quoted(slot.name), " in its iterations, which has ", slot.bytes());
    }
  }

  void check_operands_of_call(const char* what, const Program& called, const std::vector<SlotIndex>& slots,
                              const std::vector<Operand>& given) const {
    require(slots.size() == given.size(), "program ", quoted(called.name()), " has ", slots.size(), " ", what,
            slots.size() == 1 ? "" : "s", ", and is given ", given.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = called.slots()[slots[i]];
      require(given[i].kind == Operand::kView && given[i].dtype == slot.dtype && given[i].sizes == slot.sizes &&
                  is_dense(given[i]),
              what, " ", quoted(slot.name), " of program ", quoted(called.name()),
              " is given no dense view of its dtype and sizes");
    }
  }

  void check_loop(const Program& body) const {
    require(body.own_results().empty(), "the body of a loop may not run at all, so that it has no results of its own; ",
            "give ", body.own_results().empty() ? "" : quoted(body.slots()[body.own_results()[0]].name),
            " as a parameter that is donated");
    for (size_t i = 0; i < body.parameters().size(); ++i) {
      require(!is_consumed(body, i), "the body of a loop reads parameter ",
              quoted(body.slots()[body.parameters()[i]].name), " again; return what is donated");
    }
  }

  void check_otherwise(const Step& step) const {
    const Program& then = *step.program;
    if (step.otherwise == nullptr) {
      require(then.own_results().empty(), "there are results, and nothing that gives them if the byte is zero");
      for (size_t i = 0; i < then.parameters().size(); ++i) {
        require(!is_consumed(then, i), "parameter ", quoted(then.slots()[then.parameters()[i]].name),
                " is donated and not returned");
      }
      return;
    }
    const Program& otherwise = *step.otherwise;
    check_operands_of_call("parameter", otherwise, otherwise.parameters(), step.operands);
    check_operands_of_call("result", otherwise, otherwise.own_results(), step.results);
    for (size_t i = 0; i < then.parameters().size(); ++i) {
      const SlotIndex one = then.parameters()[i], other = otherwise.parameters()[i];
      require(then.slots()[one].donated == otherwise.slots()[other].donated &&
                  then.is_result(one) == otherwise.is_result(other),
              "parameter ", i, " is donated or returned by one of ", quoted(then.name()), " and ",
              quoted(otherwise.name()), " and not by the other");
    }
  }

  const Program& program_;
  std::vector<bool> defined_;  // something has been written to it
  std::set<std::string> names_;
  StepIndex step_ = UINT32_MAX;
};

}  // namespace

void verify_structure(const Program& program) {
  StructureCheck(program).run();
}

}  // namespace mydev::program
