// Turns recorded steps, whose views are addresses, into a program, whose views are of slots. A part of the recorder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/ir/builder.h"
#include "program/ir/program.h"
#include "program/run/executor.h"
#include "runtime/memory/address_space.h"

namespace mydev::program {

// The addresses that a function was recorded with, and those of them for which each run is given memory, in order.
struct Signature {
  std::vector<Reservation> reserved;  // all of them, by address
  std::vector<const void*> parameters, results;
  std::vector<const void*> donated;  // parameters that nobody needs after a run
};

class RecordedMemory {
 public:
  // Operands of the steps are views of slot 0, which begins at address 0.
  RecordedMemory(std::vector<Step> steps, const Signature& signature);

  // To be called once. It leaves out steps that change nothing that is read later, and steps that read only memory that
  // was never written. Both come from operators that set all of a tensor's elements in two steps.
  SharedProgram build(const std::string& name);
  // After build(): see Recording.
  const std::vector<Binding>& other_parameters() const noexcept { return other_parameters_; }
  const std::vector<size_t>& written_results() const noexcept { return written_results_; }

 private:
  // A stretch of memory that steps touch, or that was reserved. Borrows from steps_.
  struct Range {
    int64_t begin, end;
    const Operand* whole = nullptr;  // a dense view of all of it, if there is one
    bool reserved = false, written = false;
    bool given = false;  // at each run: no temporary
  };

  void find_ranges();
  Range& range_of(const void* data);
  // Returns the index of the range that the operand touches; nothing unless it is a view with elements.
  std::optional<size_t> range_of(const Operand& operand) const;
  bool is_private(const Operand& operand) const;
  void drop_undefined_steps();
  void drop_dead_steps();
  void add_slots(ProgramBuilder& builder);
  void add_parameter(ProgramBuilder& builder, size_t range, bool donated);
  void bind(Operand& operand) const;

  std::vector<Step> steps_;
  const Signature& signature_;
  std::vector<Range> ranges_;     // by address, apart from each other
  std::vector<SlotIndex> slots_;  // of each range
  std::vector<Binding> other_parameters_;
  std::vector<size_t> written_results_;
};

}  // namespace mydev::program
