// Checks of a program, with errors that name the step.
//
// verify_structure checks the program by itself; each Program has passed it. verify_kernels checks it against the
// kernels: it needs the registry and, for kernels of a driver, a device. Each Executor's program has passed it. Both
// raise INVALID_ARGUMENT (NOT_FOUND if there is no such kernel), with a message that begins with the step. Thread-safe.
#pragma once

#include "program/ir/program.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev::program {

// Slots: names that are no identifiers or not unique, unknown or negative sizes, constants of too few bytes.
// Operands: slots that are not there, views beyond their slot, numbers that are written.
// Order: operands that are read before anything wrote them, results that nothing writes, waits for no earlier step.
// Writing: constants, and parameters that are not donated, are not written.
// Calls: operands that do not fit the program's parameters and results, loops that leave nothing or too much behind.
void verify_structure(const Program& program);
// Kernels that are not known, frames that their contract or signature refuses, results that share memory with an
// operand where the contract does not allow it. Programs that are called are looked at too. Without a device, built-in
// kernels are known by their contracts.
MYDEV_API void verify_kernels(const Program& program, const Device* device = nullptr);

}  // namespace mydev::program
