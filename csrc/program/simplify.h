// A program without steps that do nothing for it.
#pragma once

#include "program/program.h"

namespace mydev::program {

// The program without
//
// - launches of built-in kernels, copies and fills that write temporaries which nothing reads;
// - copies of a temporary to a parameter that is donated, as they end a round of a loop: the temporary's steps write to
//   the parameter, where none of them still reads it, but as the contract of its kernel lets a result be an operand.
//
// Programs that are called stay as they are. Programs of several lanes do.
SharedProgram simplify(const Program& program);

}  // namespace mydev::program
