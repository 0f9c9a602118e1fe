// Steps over a few elements each, as one launch of the kernel `mydev.small_steps`.
//
// Such a step computes for less time than a launch takes. So those that follow each other become one step, whatever
// their shapes: launches of built-in kernels, copies and fills, and the loops, conditions and calls whose bodies have
// only such steps. They keep their order, and what one of them writes lies in memory before the next one reads it.
// The bytes that loops and conditions go by are read where the steps run, and nobody waits for them.
#pragma once

#include <optional>
#include <vector>

#include "program/ir/program.h"
#include "program/transform/outline.h"
#include "runtime/base/api.h"

namespace mydev::program {

// Views of a step have no more elements.
inline constexpr int64_t kMostSmallElements = 1024;

// True if the step, or each step of the program, is one of these.
bool is_small(const Program& program, const Step& step);
bool is_small(const Program& program);
// Returns the program, and those that it calls, with each run of these steps as one step of kind kFused. A run that is
// one tile-by-tile run (fusible_run.h) stays, and so does a loop of one that has only copies beside it. Returns the
// program itself if it has no such run.
MYDEV_API SharedProgram gather_small_steps(const SharedProgram& program);

// Returns the steps that a step of kind kFused calls as attributes of the kernel, whose plan reads them. Returns
// nothing if one of them is not small.
//
//   body    text, for people
//   memory  three numbers for each binding behind the frame's buffers: the bindings are numbered on from there
//     0, bytes, 0       a temporary
//     1, bytes, index   an entry of `constants`
//     2, binding, offset  that offset in another binding, in the first iteration of the loop that moves this one
//   constants   a dictionary of arrays, each by the name "constant"
//   steps   a dictionary with an entry for each step in their order, by its name, itself a dictionary. The steps of a
//           loop or condition stand behind it, up to `end`, which is the number of a step. Loops may be in loops
//     a kernel: as in `mydev.fused` (fused_form.h), but each operand has its own `ranks` and `sizes`. `bindings`,
//               `dtypes`, `offsets`, `ranks` have an entry for each operand; `sizes` and `strides` as many as the ranks
//               say. The others are `results`, `numbers`, `attributes`
//     "fill"    the same, and `pattern`: an array of the bytes that are repeated in its one operand
//     "repeat"  `count`, `end`; `moves`: bindings of kind 2, each followed by its bytes from iteration to iteration
//     "while", "if"  `binding`, `offset` of the byte; `otherwise`, `end`. The steps from `otherwise` on are run if the
//               byte is 0, and those before it if it is not. A "while" has no `otherwise`
std::optional<Attributes> small_form(const Step& step);

}  // namespace mydev::program
