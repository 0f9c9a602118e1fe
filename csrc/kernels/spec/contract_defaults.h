// The attributes that a frame leaves out, as its contract has them. Thread-safe.
#pragma once

#include <vector>

#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

// Returns the contract's attributes behind those of the frame, with their defaults, in order, up to one that has none.
// Their names are the contract's. The frame's operands are all there.
MYDEV_API std::vector<mydev_attribute> missing_attributes(const KernelContract& contract, const mydev_frame& frame);

}  // namespace mydev
