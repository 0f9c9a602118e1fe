// A command is a step as an executor submits it: its kernel is decided, its frame or arguments are built. Then it is
// placed: its pointers follow the memory that they point into. Then it is submitted, any number of times. One thread at
// a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "program/ir/program.h"
#include "program/run/binding_table.h"
#include "program/run/constant_pool.h"
#include "runtime/stream/stream.h"

namespace mydev::program {

// The addresses of one program's slots, in the binding table.
struct Relocations {
  BindingTable& table;
  const ConstantPool& constants;
  std::vector<Address> slots;
  Address workspace;  // of the command that is being placed

  // Makes the pointer follow the beginning of the view. Does nothing for operands that are no views or have no
  // elements.
  void follow(void*& pointer, const Operand& view);
};

class Command {
 public:
  Command() = default;
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Returns the bytes of memory that the command needs while it runs.
  virtual uint64_t workspace_bytes() const noexcept { return 0; }
  // True if the command gives the driver the same work each time, as long as its placement stays, and waits for
  // nothing.
  virtual bool is_repeatable() const noexcept { return true; }
  virtual void place(Relocations& relocations) = 0;
  // `where` says which step is being submitted, for errors: a command that submits others changes it.
  virtual void submit(Stream& stream, const char*& where) = 0;
};

// Makes the command of a fused step, or of a repeated one that is fused; nullptr if the device runs the step as a call.
std::unique_ptr<Command> make_fused_command(const Step& step, Stream& stream);
// The facts about a program's slots that are known before there is memory.
struct SlotFacts {
  std::vector<SlotIndex> memory;  // which slots share memory: shared_memory() (plan/live_ranges.h)
  std::vector<bool> constant;     // of each slot: it holds the same bytes whenever the program runs
  std::vector<bool> on_host;      // of each slot

  bool is_constant(const Operand& operand) const { return operand.kind == Operand::kView && constant[operand.slot]; }
};
// Makes the command of a step that calls no program. Borrows the step. Raises the errors of its kernel; throws
// KernelDeclined.
std::unique_ptr<Command> make_command(const Step& step, const SlotFacts& slots, Stream& stream);

}  // namespace mydev::program
