// The checks of its operands that every collective makes before anything is sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace mydev {

// Checks that all are dense tensors of one device of ours; returns its index. Errors have the collective's name.
int device_of(const char* collective, at::TensorList tensors);
// The same for operands in two lists, which must also be of one dtype.
int device_of(const char* collective, at::TensorList outputs, at::TensorList inputs);
// Returns the one tensor of the list.
const at::Tensor& only_tensor(const char* collective, const std::vector<at::Tensor>& tensors);
// Raises unless `tensors` has one entry per rank.
void check_count(const char* collective, const char* what, size_t count, size_t expected);

}  // namespace mydev
