// Copies between views of equal dtype by the driver's copy_strided, without packing them first.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/stream/stream.h"

namespace mydev {

// Copies between tensors of equal sizes; waits for ordinary host memory only. Returns false, with nothing copied, if
// the driver has no such copy or the elements are not copied bit by bit.
bool try_copy_strided(const at::Tensor& dst, const at::Tensor& src, Stream& stream, mydev_copy_kind kind);

}  // namespace mydev
