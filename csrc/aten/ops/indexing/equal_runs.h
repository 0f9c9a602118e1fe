// Runs of equal elements, as a sort leaves them.
#pragma once

#include <ATen/core/Tensor.h>

namespace mydev {

// For each element of a vector, whether it differs from the one before it; true for the first. NaN differs from NaN.
at::Tensor begins_of_runs(const at::Tensor& values);

}  // namespace mydev
