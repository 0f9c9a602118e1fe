// Steps that launch a kernel that was compiled at run time.
//
// The step says all there is to know of the launch, so that whoever plans or prints a program needs to know of no
// module: what the kernel reads and writes is a result, and once more the last of the operands; the geometry is
// attributes behind the kernel's own. `compiled` keeps the module. Text of such a program is for people: a text has no
// module, so that parsing it gives a launch of a kernel that no device has.
#pragma once

#include "program/ir/program.h"
#include "runtime/driver/kernel_module.h"

namespace mydev::program {

// Adds to a launch step, made of the frame, what this launch has beside it.
void describe_compiled_launch(const CompiledLaunch& launch, Step& step);
// Takes from a frame that was made of such a step what describe_compiled_launch had added.
void keep_given_operands(const Step& step, mydev_frame& frame) noexcept;

}  // namespace mydev::program
