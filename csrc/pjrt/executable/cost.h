// The cost of running a program, estimated from its steps: JAX's cost_analysis() gives it.
//
// Floating-point operations are those of products, convolutions and attention. A kernel whose contract has an
// expression counts an operation for each function in it and each element. Transcendentals are counted apart, as XLA
// does. Bytes are those of the views that a step reads and writes; within a run of fused steps nothing is written. The
// body of a loop counts as often as the program says, or once if only the device knows. Each figure of a condition is
// that of the dearer branch.
#pragma once

#include "program/ir/program.h"

namespace mydev::pjrt {

struct Cost {
  double flops = 0, transcendentals = 0, bytes = 0;
};

Cost cost_of(const program::Program& program);

}  // namespace mydev::pjrt
