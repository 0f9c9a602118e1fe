// The body of a fused step as data: attributes of the kernel `mydev.fused`, whose plan reads them.
//
//   body    text, for people: "t = launch mydev.mul(x, w); y = launch mydev.relu(t)"
//   sizes   the shape, in the fewest dimensions that all steps can be said in; none is 1
//   outer_rank    the number of outer dimensions: the first ones, which no step reduces
//   iterations  the trip count: how often all steps are run, one after the other
//   advances  by how many bytes each buffer of the frame moves from iteration to iteration; empty: none moves
//   apart   whether no iteration finds at one element what another iteration writes at another element
//   steps   a dictionary with an entry for each step, by its kernel's name, itself a dictionary:
//     results     how many of its operands, the first ones, it writes
//     is_outer     whether it has operands over the outer dimensions alone
//     bindings      for each operand an index: below the number of the frame's buffers, that buffer; from there on, a
//                 temporary of the body alone; -1: a number; -2: absent
//     dtypes, offsets  for each operand, its mydev_dtype and the bytes from the beginning of that memory
//     strides     for each operand, as many as `sizes` has entries, in elements; 0 in the reduced dimensions if the
//                 operand is over the outer dimensions alone
//     numbers     the number of each operand that is one, in order, by the name "number"
//     attributes  the kernel's own
//
// The other steps find what a step writes in the same memory, and only as it was written. So a kernel may take any part
// of the outer dimensions, with all reduced ones, through all steps before the next part. If the iterations are apart,
// it may take the part through all iterations.
#pragma once

#include <optional>

#include "program/ir/program.h"

namespace mydev::program {

// Returns the form of a step that is kFused, or kRepeat: then its body is run for all iterations. Returns nothing if
// the step's program is no single run (fusible_run.h) or has constants.
std::optional<Attributes> fused_form(const Step& step);

}  // namespace mydev::program
