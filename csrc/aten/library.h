// Start-up of the PyTorch layer, called once by the Python module when it is loaded.
#pragma once

#include "runtime/base/api.h"

namespace mydev {

// Completes what static registration cannot: the fallback of each op without a kernel of ours, the allocator of host
// scopes, and the per-thread choice to run backward passes on the calling thread. Loads no driver, starts no thread.
MYDEV_API void initialize_library();

}  // namespace mydev
