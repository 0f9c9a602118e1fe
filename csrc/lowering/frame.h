// What a lowering knows while it goes through a function: the tensor that each value is. One thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lowering/emitter.h"
#include "lowering/host_operation.h"
#include "lowering/lowering.h"
#include "lowering/sharding/partition/partition.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// Who uses a value.
struct Uses {
  int count = 0;
  const stablehlo::Operation* last = nullptr;
};

// An operation, and the calls through which it is come to.
using OperationInCalls = std::pair<std::vector<const stablehlo::Operation*>, const stablehlo::Operation*>;

// A part of a tensor that moves from round to round of a loop, as the body has it; and what a round writes there.
struct MovingView {
  program::Operand view, written;
};

struct Context {
  // The one operation that uses the value; nullptr: none or several do.
  const stablehlo::Operation* only_user(const stablehlo::Value& value);
  const Uses& uses_of(const stablehlo::Value& value);

  const stablehlo::Module& module;
  HostOperations& host;
  Placement placement;
  int bodies = 0;           // so far, for their names
  int64_t collectives = 0;  // so far, for their numbers
  // By the ids of values.
  std::map<const stablehlo::Function*, std::vector<Uses>> uses;
  // What custom calls of a partitioned module stand for; nullptr: it is none.
  const std::map<const stablehlo::Operation*, Move>* moves = nullptr;
  // What is gathered, as LoweredProgram says it.
  std::vector<std::string> gathered;
  // That the lowering is in.
  std::vector<const stablehlo::Operation*> calls;
  // What operations read and write that need no place computed for it (induction.h).
  std::map<OperationInCalls, MovingView*> moving;
  std::string meetings;  // as LoweredProgram says it
};

// Of one function and one program that is being built. A body of a loop is another program with a frame of its own.
class Frame {
 public:
  Frame(Context& context, Emitter& emitter, const stablehlo::Function& function)
      : context(context), emit(emitter), function(function), tensors_(function.value_count) {}

  void set(const stablehlo::Value& value, Tensor tensor) { tensors_[value.id] = std::move(tensor); }
  const Tensor& operator[](const stablehlo::Value& value) const { return tensors_[value.id]; }
  const program::Operand& view(const stablehlo::Value& value) const { return tensors_[value.id].view; }
  std::vector<Tensor> tensors_of(std::span<const stablehlo::Value* const> values) const;
  program::Operand result_of(const stablehlo::Value& value);  // a new temporary for it
  // Of tuples, their elements.
  void set_tuple(const stablehlo::Value& value, std::vector<Tensor> elements) {
    tuples_[value.id] = std::move(elements);
  }
  const std::vector<Tensor>& tuple(const stablehlo::Value& value) const { return tuples_.at(value.id); }
  // A value in memory of the host, of the function that is run: it is copied to the device before it is first used.
  void set_on_host(const stablehlo::Value& value, program::Operand view) { on_host_[value.id] = std::move(view); }
  void bring_operands(const stablehlo::Operation& op);  // those of operations within it as well
  // The tensor or the tuple that some frame has for a value is another's here. Tokens are nothing.
  void pass(const stablehlo::Value& to, const Frame& from, const stablehlo::Value& value);

  Context& context;
  Emitter& emit;
  const stablehlo::Function& function;

 private:
  std::vector<Tensor> tensors_;
  std::unordered_map<uint32_t, std::vector<Tensor>> tuples_;
  std::unordered_map<uint32_t, program::Operand> on_host_;
};

// Goes through the operations of a block, without its terminator.
void lower_block(Frame& frame, const stablehlo::Block& block);
void lower_operation(Frame& frame, const stablehlo::Operation& op);
// Of an operator that takes sizes as operands: that they are those of its result. Raises INVALID_ARGUMENT, or the
// program does when it runs. dynamic_shapes.cpp
void check_shape_operands(Frame& frame, const stablehlo::Operation& op);
// Of an operation whose results are as its operands: that they are of the same types. Raises INVALID_ARGUMENT.
void require_same_types(const stablehlo::Operation& op);
// The operation on the host.
void lower_to_host(Frame& frame, const stablehlo::Operation& op);

// A loop; and an operation on a part of a tensor that moves with its rounds, else false. loops.cpp
void lower_while(Frame& frame, const stablehlo::Operation& op);
bool lower_moving_part(Frame& frame, const stablehlo::Operation& op);

// Whether a type of integers has the whole range. (ranges.cpp)
bool is_of_type(const Range& range, stablehlo::ElementType type) noexcept;

// By kind of operation. They return false where it is not theirs, or has a form or a type that is none of theirs: then
// the operation is the host's.
bool lower_by_range(Frame& frame, const stablehlo::Operation& op);       // ranges.cpp
bool lower_pointwise(Frame& frame, const stablehlo::Operation& op);      // pointwise.cpp
bool lower_conversion(Frame& frame, const stablehlo::Operation& op);     // conversions.cpp
bool lower_movement(Frame& frame, const stablehlo::Operation& op);       // movement.cpp
bool lower_window(Frame& frame, const stablehlo::Operation& op);         // windows.cpp
bool lower_reduction(Frame& frame, const stablehlo::Operation& op);      // reductions.cpp
bool lower_normalization(Frame& frame, const stablehlo::Operation& op);  // normalization.cpp
bool lower_ordering(Frame& frame, const stablehlo::Operation& op);       // ordering.cpp
bool lower_product(Frame& frame, const stablehlo::Operation& op);        // products.cpp
bool lower_indexing(Frame& frame, const stablehlo::Operation& op);       // indexing.cpp
bool lower_collective(Frame& frame, const stablehlo::Operation& op);     // collective_operations.cpp
bool lower_move(Frame& frame, const stablehlo::Operation& op);           // collective_operations.cpp
bool lower_control(Frame& frame, const stablehlo::Operation& op);        // control.cpp
bool lower_custom_call(Frame& frame, const stablehlo::Operation& op);    // custom_calls.cpp

}  // namespace mydev::lowering
