// What a program costs to run, estimated from its steps: what JAX's cost_analysis() gives.
//
// Floating-point operations are those of products, convolutions and attention, and of kernels whose contract has an
// expression, an operation for each function in it and each element; transcendentals are counted apart, as XLA does.
// Bytes are those of the views that a step reads and writes; within a run of fused steps nothing is written. The body
// of a loop counts as often as the program says, once where only the device knows; of branches the dearest one counts.
#pragma once

#include "program/ir/program.h"

namespace mydev::pjrt {

struct Cost {
  double flops = 0, transcendentals = 0, bytes = 0;
};

Cost cost_of(const program::Program& program);

}  // namespace mydev::pjrt
