// Nested tensors of the device, those of the strided layout: a buffer on the device, and its parts' sizes, strides and
// offsets on the host, in PyTorch's own TensorImpl. (Jagged ones are a subclass in Python over dense tensors.)
//
// Policy. Operators that core composes of operators on the buffer or the parts run as that composition, as on every
// device. Operators that core has a CPU kernel for fall back to it. The kernel works on a CPU tensor over the buffer's
// staging tensor (host_call.h), and the fallback is counted. Thread-safe as the tensors are.
#pragma once

#include <ATen/core/Tensor.h>

namespace mydev {

at::Tensor nested_buffer(const at::Tensor& nested);

// A tensor with the parts of `nested` over another buffer, on its device.
at::Tensor nested_over(const at::Tensor& buffer, const at::Tensor& nested);

// Gives `destination` the memory of `buffer`. A nested tensor's parts never change.
void set_nested(const at::Tensor& destination, const at::Tensor& buffer);

}  // namespace mydev
