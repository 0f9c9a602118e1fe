// A fact about fused optimizers for others than their operators.
#pragma once

#include "runtime/base/api.h"

namespace mydev {

// Whether this device has a kernel for the fused steps of Adam and AdamW, or else of SGD.
MYDEV_API bool steps_in_one_launch(bool is_adam, int device);

}  // namespace mydev
