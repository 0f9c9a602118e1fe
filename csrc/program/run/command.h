// A step as an executor submits it: decided, its frame or arguments built. Then it is placed: its pointers follow the
// memory that they point into. Then it is submitted, again and again. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "program/ir/program.h"
#include "program/run/address.h"
#include "program/run/constant_pool.h"
#include "runtime/stream/stream.h"

namespace mydev::program {

// Where the slots of one program lie.
struct Places {
  Bases& bases;
  const ConstantPool& constants;
  std::vector<Address> slots;
  Address workspace;  // of the command that is being placed

  // A pointer to where the view begins; nothing for what has no elements, or is no view.
  void follow(void*& pointer, const Operand& view);
};

class Command {
 public:
  Command() = default;
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Memory that it needs while it runs.
  virtual uint64_t workspace_bytes() const noexcept { return 0; }
  // Whether submitting it gives the driver the same each time, as long as it is placed as it is, and waits for nothing.
  virtual bool is_repeatable() const noexcept { return true; }
  virtual void place(Places& places) = 0;
  // `where` says which step is being submitted, for errors: a command that submits others changes it.
  virtual void submit(Stream& stream, const char*& where) = 0;
};

// Of a fused step; nothing where the device makes a call of it.
std::unique_ptr<Command> make_fused_command(const Step& step, Stream& stream);
// What is known of a program's slots before there is memory.
struct SlotFacts {
  std::vector<SlotIndex> memory;  // which slots share memory: shared_memory() (plan/lives.h)
  std::vector<bool> constant;     // of each slot: it holds the same bytes whenever the program runs
  std::vector<bool> on_host;      // of each slot

  bool is_constant(const Operand& operand) const { return operand.kind == Operand::kView && constant[operand.slot]; }
};
// Of a step that calls no program. Borrows the step. Raises what its kernel says against it; throws KernelDeclined.
std::unique_ptr<Command> make_command(const Step& step, const SlotFacts& slots, Stream& stream);

}  // namespace mydev::program
