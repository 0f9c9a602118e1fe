// Neighbouring launches as one step, so that what they hand to each other need not go through memory.
//
// A fused step is a call of a program that is one run of pointwise launches and reductions (fusible_run.h). It means
// what a call means. A device that has a kernel `mydev.fused` is given its body as data (fused_form.h); the host's goes
// through it in tiles that stay in the processor's cache, and computes to the bit what the launches compute.
#pragma once

#include "program/ir/program.h"

namespace mydev::program {

// The program, and those that it calls, with runs of two or more launches fused. Temporaries of a run alone become
// temporaries of the fused program. A program that is repeated and is one run stays as it is: the whole loop goes tile
// by tile, all rounds of a tile before the next. The program itself if there is nothing to fuse.
SharedProgram fuse(const SharedProgram& program);

}  // namespace mydev::program
