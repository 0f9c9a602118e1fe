// Neighbouring pointwise launches as one step, so that what they hand to each other need not go through memory.
//
// A fused step is a call of a program whose launches compute element by element over one shape. It means what a call
// means; an executor whose device runs the host's kernels goes through the elements in tiles that stay in the
// processor's cache (tiles.h), and elsewhere it is a call. What a tile computes is to the bit what the launches
// compute.
#pragma once

#include "program/program.h"

namespace mydev::program {

// The program, and those that it calls, with runs of two or more launches fused where they follow each other, are
// pointwise by their kernels' contracts, have views of one shape, and read what one of them writes only as it was
// written. Temporaries of a run alone become temporaries of the fused program. A program that is repeated and is one
// run stays as it is: the whole loop goes tile by tile, all rounds of a tile before the next. The program itself if
// there is nothing to fuse.
SharedProgram fuse(const SharedProgram& program);

// Whether all steps of the program are one such run.
bool is_fusible(const Program& program);

}  // namespace mydev::program
