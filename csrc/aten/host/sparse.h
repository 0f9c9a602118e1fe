// Sparse tensors of the device, COO and compressed (CSR, CSC, BSR, BSC): dense tensors of the device for indices and
// values, in PyTorch's own TensorImpls.
//
// Policy. PyTorch's code for any device makes sparse tensors, takes them apart and copies them. Operators that training
// by sparse gradients needs are made of kernels for dense tensors (aten/ops/indexing/sparse_ops.cpp). All else falls
// back to the CPU's sparse kernels, which run on CPU tensors over the components' staging tensors (host_call.h), and is
// counted. Thread-safe as the tensors are.
#pragma once

#include "aten/host/components.h"
#include "runtime/base/api.h"

namespace mydev {

// Whether a tensor, of whatever device, has one of the layouts above.
MYDEV_API bool is_sparse(const at::Tensor& tensor) noexcept;

// Indices and values; for the compressed layouts compressed indices, plain indices and values. Themselves, not aliases.
MYDEV_API Components sparse_components(const at::Tensor& sparse);

// A tensor like `sparse` (layout, sizes, dtype, whether coalesced) over other components, on their device. Nothing is
// checked or copied.
MYDEV_API at::Tensor sparse_over(const Components& components, const at::Tensor& sparse);

// Gives `destination` what `like` says (layout, sizes, whether coalesced) and these components.
MYDEV_API void set_sparse(const at::Tensor& destination, const Components& components, const at::Tensor& like);

}  // namespace mydev
