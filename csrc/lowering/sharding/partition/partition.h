// Programs for several devices as the program of one of them, which computes with its shards of tensors.
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
// The partitioner goes through a program once, forward. The results of an operation are cut as its operands, as far as
// its rule (rules.h) says that shards can be computed from shards. The largest operand's cuts come first, and others
// are moved to them. An operation without a rule is computed from whole operands on each device. The partitioner goes
// through a loop until the values that the loop carries are cut as they came. Calls are inlined. Manual computations
// (Shardy's operation, and the operations between GSPMD's custom calls) are taken over as they are.
//
// A reduction over shards first gives a tensor of which each device has a shard of a summand. The sums are then made,
// unless the user of the tensor takes summands as they are (rules.h), or says that they be left ("unreduced").
//
// The idea of factors is Shardy's, that of the partitions GSPMD's (arXiv:2105.04663).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lowering/sharding/sharding.h"
#include "runtime/base/api.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// A move from the shards that devices have of a tensor to other shards of it.
struct Move {
  std::optional<Sharding> gathered, sharded;  // what is undone, and what is done then
  // The place of the shard among zeros after that; devices of another summand than 0 have zeros only.
  std::optional<Sharding> summand;
  const stablehlo::Type* between = nullptr;  // what each device has meanwhile
  std::string what;                          // the tensor, for people
};

// Refers to the module that it was made of.
struct Partition {
  // The function "main" of this module takes and returns shards. The module has no shardings any more.
  stablehlo::Module module;
  std::vector<Sharding> parameters, results;
  std::map<const stablehlo::Operation*, Move> moves;  // what its custom calls of "shards" stand for
};

// Whether the module says how its tensors are split. Raises as sharding_of() does.
MYDEV_API bool has_shardings(const stablehlo::Module& module, int64_t devices);
// Raises as sharding_of() does, UNIMPLEMENTED for manual computations that are not understood, and INVALID_ARGUMENT for
// those whose shards do not fit their shardings.
MYDEV_API Partition partition(const stablehlo::Module& module, int64_t devices);

// GSPMD's custom calls that are about shardings: the operand with a sharding, and the beginning and the end of a manual
// computation.
enum class ShardingCall { kNone, kSharding, kFullToShard, kShardToFull };
ShardingCall sharding_call_of(const stablehlo::Operation& op);

// "argument 0", "result 1 of stablehlo.sort (operation 3 of function 'main')".
std::string describe(const stablehlo::Value& value);

}  // namespace mydev::lowering
