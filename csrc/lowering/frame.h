// The state of a lowering while it goes through a function: the tensor that each value is. One thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/emitter.h"
#include "lowering/lowering.h"
#include "lowering/sharding/partition/partition.h"
#include "stablehlo/evaluator/evaluation.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// The uses of a value.
struct Uses {
  int count = 0;
  const stablehlo::Operation* last = nullptr;
};

// An operation, and the calls through which it is reached.
using OperationInCalls = std::pair<std::vector<const stablehlo::Operation*>, const stablehlo::Operation*>;

// A part of a tensor that moves from iteration to iteration of a loop: its view in the body, and the values that an
// iteration writes there.
struct MovingView {
  program::Operand view, written;
};

struct Context {
  // The one operation that uses the value; nullptr: none or several do.
  const stablehlo::Operation* only_user(const stablehlo::Value& value);
  const Uses& uses_of(const stablehlo::Value& value);

  const stablehlo::Module& module;
  std::shared_ptr<const void> owner;  // of all that evaluations refer to
  Devices devices;
  int bodies = 0;           // so far, for their names
  int64_t collectives = 0;  // so far, for their numbers
  // By the ids of values.
  std::map<const stablehlo::Function*, std::vector<Uses>> uses;
  // The moves that custom calls of a partitioned module stand for; nullptr: the module is not partitioned.
  const std::map<const stablehlo::Operation*, Move>* moves = nullptr;
  // The gathered tensors, as in LoweredProgram::gathered.
  std::vector<std::string> gathered;
  // The calls that the lowering is in.
  std::vector<const stablehlo::Operation*> calls;
  // The moving parts that operations read and write, whose places need not be computed (induction.h).
  std::map<OperationInCalls, MovingView*> moving;
  std::string collectives_text;                              // as in LoweredProgram
  std::shared_ptr<std::shared_ptr<Collectives>> rendezvous;  // as in LoweredProgram
};

// The tensors of one function in one program that is being built. A body of a loop is another program, with a frame of
// its own.
class Frame {
 public:
  Frame(Context& context, Emitter& emitter, const stablehlo::Function& function)
      : context(context), emit(emitter), function(function), tensors_(function.value_count) {}

  void set(const stablehlo::Value& value, Tensor tensor) { tensors_[value.id] = std::move(tensor); }
  const Tensor& operator[](const stablehlo::Value& value) const { return tensors_[value.id]; }
  const program::Operand& view(const stablehlo::Value& value) const { return tensors_[value.id].view; }
  std::vector<Tensor> tensors_of(std::span<const stablehlo::Value* const> values) const;
  program::Operand result_of(const stablehlo::Value& value);  // a new temporary for it
  // Sets the elements of a tuple.
  void set_tuple(const stablehlo::Value& value, std::vector<Tensor> elements) {
    tuples_[value.id] = std::move(elements);
  }
  const std::vector<Tensor>& tuple(const stablehlo::Value& value) const { return tuples_.at(value.id); }
  // Sets a value of the main function that is in memory of the host: it is copied to the device before it is first
  // used.
  void set_on_host(const stablehlo::Value& value, program::Operand view) { on_host_[value.id] = std::move(view); }
  void bring_operands(const stablehlo::Operation& op);  // those of operations within it as well
  // Gives `to` the tensor or the tuple that the frame `from` has for `value`. Does nothing for tokens.
  void pass(const stablehlo::Value& to, const Frame& from, const stablehlo::Value& value);
  // Computes on the host, when the stream comes to it. `name`: what errors and traces call it. Operands are made dense;
  // results are dense temporaries.
  void host_call(std::string_view name, stablehlo::Evaluation evaluation, std::vector<program::Operand> results,
                 std::vector<program::Operand> operands);

  Context& context;
  Emitter& emit;
  const stablehlo::Function& function;

 private:
  std::vector<Tensor> tensors_;
  std::unordered_map<uint32_t, std::vector<Tensor>> tuples_;
  std::unordered_map<uint32_t, program::Operand> on_host_;
};

// Lowers the operations of a block, without its terminator.
void lower_block(Frame& frame, const stablehlo::Block& block);
void lower_operation(Frame& frame, const stablehlo::Operation& op);
// Checks that the sizes that an operator takes as operands are those of its result. Raises INVALID_ARGUMENT, or the
// program does when it runs. dynamic_shapes.cpp
void check_shape_operands(Frame& frame, const stablehlo::Operation& op);
// Raises INVALID_ARGUMENT if the results of an operation are not of the types of its operands.
void require_same_types(const stablehlo::Operation& op);
// Lowers the operation to a call of the host.
void lower_to_host(Frame& frame, const stablehlo::Operation& op);

// Lowers a loop. lower_moving_part() lowers an operation on a part of a tensor that moves with the iterations, and
// returns false for others. loops.cpp
void lower_while(Frame& frame, const stablehlo::Operation& op);
bool lower_moving_part(Frame& frame, const stablehlo::Operation& op);

// Whether a type of integers can hold the whole range. (ranges.cpp)
bool is_of_type(const Range& range, stablehlo::ElementType type) noexcept;

// One function for each kind of operation. It returns false for operations of another kind, and for forms and types
// that it does not lower. If all return false, the operation runs on the host.
bool lower_by_range(Frame& frame, const stablehlo::Operation& op);          // ranges.cpp
bool lower_pointwise(Frame& frame, const stablehlo::Operation& op);         // pointwise.cpp
bool lower_complex_function(Frame& frame, const stablehlo::Operation& op);  // complex_functions.cpp
bool lower_conversion(Frame& frame, const stablehlo::Operation& op);        // conversions.cpp
bool lower_known(Frame& frame, const stablehlo::Operation& op);             // movement.cpp
bool lower_movement(Frame& frame, const stablehlo::Operation& op);          // movement.cpp
bool lower_window(Frame& frame, const stablehlo::Operation& op);            // windows.cpp
bool lower_reduction(Frame& frame, const stablehlo::Operation& op);         // reductions.cpp
bool lower_normalization(Frame& frame, const stablehlo::Operation& op);     // normalization.cpp
bool lower_ordering(Frame& frame, const stablehlo::Operation& op);          // ordering.cpp
bool lower_product(Frame& frame, const stablehlo::Operation& op);           // products.cpp
bool lower_fourier(Frame& frame, const stablehlo::Operation& op);           // fourier.cpp
bool lower_indexing(Frame& frame, const stablehlo::Operation& op);          // indexing.cpp
bool lower_collective(Frame& frame, const stablehlo::Operation& op);        // collective_operations.cpp
bool lower_move(Frame& frame, const stablehlo::Operation& op);              // collective_operations.cpp
bool lower_random(Frame& frame, const stablehlo::Operation& op);            // random.cpp
bool lower_control(Frame& frame, const stablehlo::Operation& op);           // control.cpp
bool lower_custom_call(Frame& frame, const stablehlo::Operation& op);       // custom_calls.cpp
bool lower_composite(Frame& frame, const stablehlo::Operation& op);         // composites.cpp

// Lowers a custom call of a program, which `text` is. Raises INVALID_ARGUMENT for text that is none, and for operands
// and results that are not the program's. called_programs.cpp
void lower_called_program(Frame& frame, const stablehlo::Operation& op, std::string_view text);

}  // namespace mydev::lowering
