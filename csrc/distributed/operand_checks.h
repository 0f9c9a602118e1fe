// What every collective asks of its operands before anything is sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace mydev {

// All dense tensors of one device of ours; returns its index. Raises with the collective's name.
int device_of(const char* collective, at::TensorList tensors);
// The same, for operands in two lists, of one dtype.
int device_of(const char* collective, at::TensorList outputs, at::TensorList inputs);
// The one tensor of the list.
const at::Tensor& only_tensor(const char* collective, const std::vector<at::Tensor>& tensors);
// Raises unless `tensors` has one entry per rank.
void check_count(const char* collective, const char* what, size_t count, size_t expected);

}  // namespace mydev
