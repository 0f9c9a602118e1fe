// Runs of a program's steps as programs of their own, which the program calls instead.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// Steps that follow each other: [first, end).
struct StepRange {
  StepIndex first = 0, end = 0;
  bool contains(StepIndex step) const noexcept { return first <= step && step < end; }
};

// How a run uses a slot of the program.
struct SlotUse {
  bool read_first = false;  // what it holds before the run matters
  bool written = false;
};

// Constants that a run reads become parameters of the called program, or constants of its own. A constant
// that differs between devices always becomes a parameter.
enum class Constants : uint8_t { kGiven, kInside };

// The call of a run, in terms of the program's slots.
struct OutlinedRun {
  StepRange steps;
  Step call;
  Constants constants = Constants::kGiven;
};

// Borrows the program.
class MYDEV_API Outliner {
 public:
  explicit Outliner(const Program& program);

  // Returns how the steps use each slot.
  std::map<SlotIndex, SlotUse> uses_of(StepRange run) const;
  // Returns a call of a new program with this name that has `steps`, which stand for those of the run and use slots as
  // `uses` says. Temporaries that only the run touches become temporaries of the called program.
  OutlinedRun call_of(StepRange run, std::string name, StepKind kind, const std::map<SlotIndex, SlotUse>& uses,
                      std::span<const Step> steps, Constants constants) const;
  // Returns the program with these calls, in their order, instead of the runs. Other steps call what `replaced` has for
  // what they call.
  SharedProgram with(std::span<const OutlinedRun> runs, const std::map<const Program*, SharedProgram>& replaced) const;

 private:
  bool is_inner(SlotIndex slot, StepRange run) const;
  bool is_dropped(SlotIndex slot, std::span<const OutlinedRun* const> run_of) const;

  const Program& program_;
  std::vector<std::vector<StepIndex>> touching_;  // the steps that touch each slot, in order
};

// A name that begins with `stem` and is none of `names`, to which it is added.
std::string new_name(const std::string& stem, std::set<std::string>& names);

}  // namespace mydev::program
