#include "program/transform/inline.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/ir/builder.h"

namespace mydev::program {

namespace {

bool is_plain_call(const Step& step) {
  return (step.kind == StepKind::kCall || step.kind == StepKind::kFused) && step.executable == nullptr;
}

class Inliner {
 public:
  explicit Inliner(const Program& program) : program_(program), builder_(program.name()) {}

  SharedProgram run() {
    for (const Slot& slot : program_.slots()) names_.insert(slot.name);
    std::vector<Place> places;
    for (const Slot& slot : program_.slots()) places.push_back({builder_.slot_like(slot, slot.name)});
    add_steps(program_, places);
    for (const SlotIndex result : program_.results()) builder_.returns(places[result].slot);
    return std::move(builder_).build();
  }

 private:
  // The place of a called program's slot.
  struct Place {
    SlotIndex slot;
    uint64_t offset = 0;
  };

  static void move(Operand& operand, const std::vector<Place>& places) {
    if (operand.kind != Operand::kView) return;
    const Place& place = places[operand.slot];
    operand.slot = place.slot;
    operand.offset += place.offset;
  }

  void add_steps(const Program& program, const std::vector<Place>& places) {
    for (const Step& step : program.steps()) {
      Step copy = step;
      for (Operand& result : copy.results) move(result, places);
      for (Operand& operand : copy.operands) move(operand, places);
      move(copy.predicate, places);
      copy.lane = 0;
      copy.after.clear();
      if (is_plain_call(step)) {
        add_call(copy);
      } else {
        builder_.add(std::move(copy));
      }
    }
  }

  void add_call(const Step& call) {
    const Program& called = *call.program;
    std::vector<Place> places(called.slots().size());
    for (size_t i = 0; i < call.operands.size(); ++i) {
      places[called.parameters()[i]] = {call.operands[i].slot, call.operands[i].offset};
    }
    for (size_t i = 0; i < call.results.size(); ++i) {
      places[called.own_results()[i]] = {call.results[i].slot, call.results[i].offset};
    }
    for (SlotIndex index = 0; index < called.slots().size(); ++index) {
      const Slot& slot = called.slots()[index];
      if (slot.kind != SlotKind::kConstant && slot.kind != SlotKind::kTemporary) continue;
      std::string name = slot.name;
      for (int number = 0; !names_.insert(name).second; ++number) name = slot.name + "_" + std::to_string(number);
      places[index] = {builder_.slot_like(slot, std::move(name))};
    }
    add_steps(called, places);
  }

  const Program& program_;
  ProgramBuilder builder_;
  std::set<std::string> names_;
};

}  // namespace

SharedProgram inline_calls(const SharedProgram& program) {
  if (std::ranges::none_of(program->steps(), is_plain_call)) return program;
  return Inliner(*program).run();
}

}  // namespace mydev::program
