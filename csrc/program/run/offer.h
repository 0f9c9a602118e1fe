// Programs are offered to a device's own compiler (driver_extensions.h, "programs"), as wholes and then in part.
#pragma once

#include "program/ir/program.h"
#include "runtime/driver/device.h"

namespace mydev::program {

// Returns the program with runs of steps that the device's compiler took as calls of executables, loops' bodies too;
// the program itself if the driver compiles no programs or takes none of its steps. Steps that it does not take are
// fused again. Waits for the compiler, maybe for minutes; what has been compiled for the device before, and is in use,
// is taken as it is. Reasons of a compiler that declines are logged as MYDEV_LOG_INFO. Raises the compiler's failure.
// Thread-safe.
SharedProgram offer(const SharedProgram& program, Device& device);

}  // namespace mydev::program
