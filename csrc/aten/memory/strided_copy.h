// Copies between views of equal dtype by the driver's copy_strided, without packing them first.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/stream/stream.h"

namespace mydev {

// False, and nothing is copied, where the driver has no such copy or the elements are not copied bit by bit. Of equal
// sizes; waits for ordinary host memory only.
bool try_copy_strided(const at::Tensor& dst, const at::Tensor& src, Stream& stream, mydev_copy_kind kind);

}  // namespace mydev
