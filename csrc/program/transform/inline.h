// A program without calls of others, but for loops and conditions.
#pragma once

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// Returns the program with the steps of the programs that it calls once in place of the calls, and theirs. All steps
// are of one lane, in the order in which they run. Loops and conditions stay, and so do the programs that they call.
// Returns the program itself if it calls none.
MYDEV_API SharedProgram inline_calls(const SharedProgram& program);

}  // namespace mydev::program
