// The body of a fused step as data: attributes of the kernel `mydev.fused`, whose plan reads them.
//
//   body    text, for people: "t = launch mydev.mul(x, w); y = launch mydev.relu(t)"
//   sizes   the shape, in the fewest dimensions that all steps can be said in; none is 1
//   kept    how many of these, the first ones, no step reduces
//   rounds  how often all steps are run, one after the other
//   advances  of each buffer of the frame, by how many bytes it moves from round to round; empty: none does
//   apart   whether no round finds at one element what another round writes at another
//   steps   a dictionary with an entry for each step, by its kernel's name, itself a dictionary:
//     results     how many of its operands, the first ones, it writes
//     of_kept     whether it is over the kept dimensions alone
//     places      of each operand: i, less than the frame's buffers: buffer i; from there on a temporary, of the body
//                 alone; -1: a number; -2: absent
//     dtypes, offsets  of each, mydev_dtype and bytes from where the place begins
//     strides     of each, as many as `sizes` has entries, in elements; 0 in those that are reduced of what is kept
//     numbers     of each operand that is one, in order, by the name "number"
//     attributes  the kernel's own
//
// What one step writes the others find in the same place, and only as it was written. So whoever runs it may take any
// part of the kept dimensions, with all that is reduced, through all steps before the next part; and if rounds are
// apart, through all rounds.
#pragma once

#include <optional>

#include "program/ir/program.h"

namespace mydev::program {

// Of a step that is kFused; or kRepeat, whose body is then run in rounds. Nothing where its program is no single run
// (fusible_run.h) or has constants.
std::optional<Attributes> fused_form(const Step& step);

}  // namespace mydev::program
