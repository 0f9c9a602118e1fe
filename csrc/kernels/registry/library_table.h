// Asking an open library of kernels for its table.
#pragma once

#include <string>

#include "mydev/custom_call.h"

namespace mydev {

// Returns the table that the query function at `symbol`, exported by `file`, gives: in full size, of our version, no
// kernel NULL. The records lie in the library, unchecked. Raises INVALID_ARGUMENT (no query function, one that throws,
// an absurd table) and FAILED_PRECONDITION (another version of the ABI); messages name the file.
mydev_library query_library(const std::string& file, void* symbol);

}  // namespace mydev
