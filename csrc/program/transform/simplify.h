// A program without steps that do nothing for it.
#pragma once

#include <cstdint>

#include "program/ir/program.h"

namespace mydev::program {

// The program without
//
// - launches of built-in kernels, copies and fills that write temporaries which nothing reads;
// - copies of a temporary to a parameter that is donated, as they end a round of a loop: the temporary's steps write to
//   the parameter, where none of them still reads it, but as the contract of its kernel lets a result be an operand.
//
// A copy to a parameter that is a result, and that must stay, stands at the end of a program for the temporary itself
// where kReturnInstead says so: that is returned, in memory of its own, and the parameter is no result any more.
//
// Programs that are called stay as they are. Programs of several lanes do.
enum class Copies : uint8_t { kKeep, kReturnInstead };
SharedProgram simplify(const Program& program, Copies copies = Copies::kKeep);

}  // namespace mydev::program
