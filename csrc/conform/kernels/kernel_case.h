// Whether one kernel does what its contract says: every frame that can be made of the contract is launched on the first
// device, and the results are compared. A frame passes, is declined, or is wrong. A frame whose expected results nobody
// knows is not compared, and is counted as that.
#pragma once

#include "conform/case.h"
#include "kernels/registry/launchable.h"
#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"
#include "runtime/driver/device.h"

namespace mydev::conform {

// `kernel`: what is launched for the contract's name.
void check_kernel(const KernelContract& contract, const Launchable& kernel, Device& device, Checks& checks);

}  // namespace mydev::conform
