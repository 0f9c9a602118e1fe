// Whether a device's compiler takes what it is given for one portable kernel: every frame that can be made of the
// contract is planned, which compiles what frames of its form need, and nothing is launched. So a compiler can be tried
// on a machine that has not its device.
#pragma once

#include "conform/case.h"
#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"
#include "runtime/driver/device.h"

namespace mydev::conform {

void check_modules(const KernelContract& contract, const mydev_kernel& record, Device& device, Checks& checks);

}  // namespace mydev::conform
