// StableHLO programs as programs of kernels.
//
// Every operation becomes launches of the device's kernels where there are such for its element types and its form,
// views of memory where it only says how elements lie, sub-programs where it is control flow, and else an operation on
// the host (host_operation.h). Calls are inlined, constants are the program's own, pointwise neighbours are fused.
#pragma once

#include <memory>

#include "lowering/host_operation.h"
#include "program/program.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// Which of the devices that run the program at the same time this one is.
struct Position {
  int64_t replica = 0, partition = 0;
};

struct LoweredProgram {
  program::SharedProgram program;
  // What its launches refer to; they must be over before this goes, and this before the module.
  std::unique_ptr<const HostOperations> host_operations;
};

// The function that is run, with its tensors as parameters and results, in order; tokens are left out. Parameters with
// "tf.aliasing_output" or "jax.buffer_donor" are donated. The module has passed verify() and outlives what is returned.
// Raises UNIMPLEMENTED, with the operation, for what is not supported.
LoweredProgram lower(const stablehlo::Module& module, const Position& position = {});

}  // namespace mydev::lowering
