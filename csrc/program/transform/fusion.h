// Neighbouring launches as one step, so that what they hand to each other need not go through memory.
//
// A fused step is a call of a program that is one run of pointwise launches and reductions (fusible_run.h). It has the
// meaning of a call. A kernel `mydev.fused` of a device is given the body as data (fused_form.h). The host's kernel
// goes through it in tiles that stay in the processor's cache, and computes to the bit what the launches compute.
#pragma once

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// Returns the program, and the programs that it calls, with runs of two or more launches fused. Temporaries that only
// one run touches become temporaries of the fused program. A program that is repeated and is one run stays as it is:
// the whole loop goes tile by tile, all iterations of a tile before the next tile. Returns the program itself if there
// is nothing to fuse. Steps of a few elements become fused steps of another kind first (small_steps.h).
MYDEV_API SharedProgram fuse(const SharedProgram& program);
// The same without those of a few elements. Fused steps that there are stay as they are.
MYDEV_API SharedProgram fuse_runs(const SharedProgram& program);

}  // namespace mydev::program
