// A program without steps that do nothing for it.
#pragma once

#include <cstdint>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

// The program without
//
// - launches of built-in kernels, copies and fills that write temporaries which nothing reads;
// - copies of a temporary to a parameter that is donated, as at the end of a loop's iteration: the temporary's steps
//   write to the parameter instead. None of them may still read it, unless the contract lets the result be that
//   operand.
//
// With kReturnInstead, a copy at the end of a program to a parameter that is a result, which would have to stay, is
// removed too. The program then returns the temporary, in memory of its own, and the parameter is no result any more.
//
// Called programs stay as they are, and so do programs of several lanes.
enum class Copies : uint8_t { kKeep, kReturnInstead };
MYDEV_API SharedProgram simplify(const Program& program, Copies copies = Copies::kKeep);

}  // namespace mydev::program
