// Quantized tensors of the device: the memory of their integers, and, quantized per channel, scales and zero points, on
// the device, in PyTorch's own TensorImpl.
//
// Policy. No kernels of our own: views and copies are dense ones of the integers; all else falls back to the CPU's
// quantized kernels, which run on CPU tensors over the components' staging tensors (host_call.h), and is counted.
// Thread-safe as the tensors are.
#pragma once

#include "aten/host/components.h"

namespace mydev {

// The whole storage as bytes, since elements may be smaller; then scales and zero points, if it has such.
Components quantized_components(const at::Tensor& quantized);

// A tensor like `quantized` (sizes, strides, offset, dtype, scheme) over other components, on their device.
at::Tensor quantized_over(const Components& components, const at::Tensor& quantized);

void set_quantized(const at::Tensor& destination, const Components& components, const at::Tensor& like);

}  // namespace mydev
