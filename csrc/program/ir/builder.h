// Building a program, step by step.
//
// Functions that add a slot or a step return its index. A name of "" is replaced by a generated one: p0, c0, t0. A
// builder belongs to one thread, and is spent once it has built.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// The lane of a step, and the earlier steps that it waits for.
struct Order {
  uint32_t lane = 0;
  std::vector<StepIndex> after;
};

MYDEV_API std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);  // row-major

class MYDEV_API ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name);

  SlotIndex parameter(mydev_dtype dtype, std::vector<int64_t> sizes, bool donated = false, std::string name = "");
  // `data` is copied: all its bytes, or those of each of several devices, one after the other.
  SlotIndex constant(mydev_dtype dtype, std::vector<int64_t> sizes, std::span<const std::byte> data,
                     std::string name = "", uint32_t devices = 1);
  SlotIndex temporary(mydev_dtype dtype, std::vector<int64_t> sizes, std::string name = "");
  // Adds a slot of another program: its kind, elements, data and place. A result is a temporary until it is returned.
  SlotIndex slot_like(const Slot& slot, std::string name);
  void donate(SlotIndex parameter);
  // Relocations the slot, a parameter or a future result, in memory of the host.
  void place_on_host(SlotIndex slot);
  // Appends a slot to the results: a parameter, or a temporary, whose memory is then given at each run.
  void returns(SlotIndex slot);
  // Returns the slots so far.
  std::span<const Slot> slots() const noexcept { return slots_; }
  StepIndex num_steps() const noexcept { return static_cast<StepIndex>(steps_.size()); }

  // Returns a view of the whole slot.
  Operand view(SlotIndex slot) const;
  // Returns a view like the buffer, whose first element lies `offset` bytes behind the slot's beginning. The buffer's
  // data is not looked at.
  static Operand view(SlotIndex slot, uint64_t offset, const mydev_buffer& buffer);
  // Returns the number of a buffer with MYDEV_BUFFER_SCALAR, which is copied.
  static Operand number(const mydev_buffer& buffer);
  static Operand number(mydev_dtype dtype, mydev_scalar value);
  static Operand absent() { return {}; }

  StepIndex launch(std::string kernel, std::vector<Operand> results, std::vector<Operand> operands,
                   std::span<const mydev_attribute> attributes = {}, Order order = {});
  StepIndex copy(Operand result, Operand operand, Order order = {});
  StepIndex fill(Operand result, std::span<const std::byte> pattern, Order order = {});
  // `function` keeps what it owns alive as long as the program.
  StepIndex host_call(std::string name, HostFunction function, std::vector<Operand> results,
                      std::vector<Operand> operands, Order order = {});
  StepIndex collective(std::string name, CollectiveFunction function, std::vector<Operand> results,
                       std::vector<Operand> operands, Order order = {});
  StepIndex call(SharedProgram program, std::vector<Operand> results, std::vector<Operand> operands, Order order = {});
  // Loops. An iteration passes values to the next in parameters that are donated and results. There are no other
  // results.
  StepIndex repeat(uint64_t count, SharedProgram body, std::vector<Operand> operands,
                   std::vector<int64_t> advances = {}, Order order = {});
  StepIndex loop_while(Operand predicate, SharedProgram body, std::vector<Operand> operands, Order order = {});
  // Both take the same parameters and give the same results. `otherwise` may be nullptr if there are no own results.
  StepIndex conditional(Operand predicate, SharedProgram then, SharedProgram otherwise, std::vector<Operand> results,
                        std::vector<Operand> operands, Order order = {});
  // Any step that is filled in, as one that is `fused` is (transform/fusion.h).
  StepIndex add(Step step);

  // Raises INVALID_ARGUMENT, with the step, for what verify_structure (verify.h) finds.
  SharedProgram build() &&;

 private:
  SlotIndex add_slot(Slot slot, const char* prefix);

  std::string name_;
  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<SlotIndex> parameters_, results_;
};

}  // namespace mydev::program
