// Programs for several devices as the program of one of them, which computes with its parts of tensors.
//
//   %0 = stablehlo.add %arg0, %arg1 : tensor<8x4xf32>      %arg0 and %arg1 come in two parts, by rows
//   %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0, 1]
//
// becomes, on each of two devices,
//
//   %0 = stablehlo.add %arg0, %arg1 : tensor<4x4xf32>
//   %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0, 1]
//   %2 = stablehlo.all_reduce(%1)
//
// It goes through a program once, forward: what an operation gives is cut as what it takes, as far as its rule
// (rules.h) says that parts can be computed from parts. The largest operand's cuts come first, others are moved to
// them; what no rule knows is computed from whole operands on each device. Loops are gone through until what goes round
// is cut as it came. Calls are inlined. Manual computations (Shardy's operation, and what lies between GSPMD's custom
// calls) are taken over as they are.
//
// What is reduced over parts is first a tensor of which each device has a part of a summand: the sums are then made, if
// what uses it does not take summands as they are (rules.h), or says that they be left ("unreduced").
//
// The idea of factors is Shardy's, that of the partitions GSPMD's (arXiv:2105.04663).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lowering/sharding/sharding.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// From the parts that devices have of a tensor to other parts of it.
struct Move {
  std::optional<Sharding> gathered, part;  // what is undone, and what is done then
  // Where the part then lies among zeros; devices of another summand than 0 have zeros only.
  std::optional<Sharding> summand;
  const stablehlo::Type* between = nullptr;  // what each device has meanwhile
  std::string what;                          // the tensor, for people
};

// Refers to the module that it was made of.
struct Partition {
  // Whose function "main" takes and returns parts. It says nothing of shardings any more.
  stablehlo::Module module;
  std::vector<Sharding> parameters, results;
  std::map<const stablehlo::Operation*, Move> moves;  // what its custom calls of "parts" stand for
};

// Whether the module says how its tensors are split. Raises as sharding_of() does.
bool has_shardings(const stablehlo::Module& module, int64_t devices);
// Raises as sharding_of() does, UNIMPLEMENTED for manual computations that are not understood, and INVALID_ARGUMENT for
// those whose parts are none.
Partition partition(const stablehlo::Module& module, int64_t devices);

// GSPMD's custom calls that are about shardings: the operand with a sharding, and the beginning and the end of a manual
// computation.
enum class ShardingCall { kNone, kSharding, kFullToShard, kShardToFull };
ShardingCall sharding_call_of(const stablehlo::Operation& op);

// "argument 0", "result 1 of stablehlo.sort (operation 3 of function 'main')".
std::string describe(const stablehlo::Value& value);

}  // namespace mydev::lowering
