// Steps that launch a kernel that was compiled at run time.
//
// The step describes the launch completely, so that planning or printing a program needs no module. Buffers that the
// kernel reads and writes are results, and again the last operands. The geometry is in attributes behind the kernel's
// own. `compiled` keeps the module. Text of such a program is for people: it has no module, so that parsing it gives a
// launch of a kernel that no device has.
#pragma once

#include "program/ir/program.h"
#include "runtime/driver/kernel_module.h"

namespace mydev::program {

// Adds to a launch step, which was made of the frame, what this launch has besides the frame.
void describe_compiled_launch(const CompiledLaunch& launch, Step& step);
// Removes from a frame, which was made of such a step, what describe_compiled_launch had added.
void keep_given_operands(const Step& step, mydev_frame& frame) noexcept;

}  // namespace mydev::program
