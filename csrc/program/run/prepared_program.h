// A program as commands with a memory plan, and the programs that it calls inside them.
//
// Called programs are prepared before their callers, since their arena is workspace of the step that calls them.
// Callers are placed before the programs that they call. One thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "program/ir/program.h"
#include "program/plan/plan.h"
#include "program/run/binding_table.h"
#include "program/run/command.h"
#include "program/run/constant_pool.h"
#include "runtime/stream/stream.h"

namespace mydev::program {

// The state of a preparation, for a program and all programs that it calls.
struct Preparation {
  Stream& stream;
  ConstantPool constants;
  Given given = Given::kWhole;  // of the outermost program
  bool fuses = true;            // steps that a kernel computes as one
  const char* where = "";       // the step that is being prepared, for errors
};

class PreparedProgram {
 public:
  // Borrows the program. `called_by` is a step, or "": then the program's parameters will be aligned as the device's
  // memory is. `constant_parameters`: of each, whether it holds the same bytes whenever the program runs; {}: none
  // does.
  PreparedProgram(const Program& program, Preparation& preparation, const char* called_by = "",
                  const std::vector<bool>& constant_parameters = {});

  const MemoryPlan& plan() const noexcept { return plan_; }
  bool is_repeatable() const noexcept;  // all commands are
  // `parameters` and `results` are in the order of the program's parameters() and own_results(). `arena` says where
  // each block of the arena lies.
  void place(BindingTable& table, const ConstantPool& constants, std::span<const Address> parameters,
             std::span<const Address> results, std::span<const Address> arena);
  void run(Stream& stream, const char*& where) { run(stream, where, 0, static_cast<StepIndex>(commands_.size())); }
  void run(Stream& stream, const char*& where, StepIndex first, StepIndex end);

 private:
  const Program& program_;
  MemoryPlan plan_;
  std::vector<std::unique_ptr<Command>> commands_;  // of each step
  std::vector<const char*> where_;                  // of each step: interned strings (interned_string.h)
};

}  // namespace mydev::program
