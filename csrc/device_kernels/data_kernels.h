// The plans of kernels that move data: copies, parts by index, joined parts, ranges. Thread-safe.
#pragma once

#include "device_kernels/portable_kernel.h"

namespace mydev::device_kernels {

// The type in which elements of so many bytes are moved as they are: "u32".
const char* bits_type(int64_t bytes);

Work plan_copy(const Request& request);
Work plan_cumulative(const Request& request);  // sums, products, maxima and minima up to each element
Work plan_index_select(const Request& request);
Work plan_concatenate(const Request& request);
Work plan_arange(const Request& request);
Work plan_embedding_backward(const Request& request);

}  // namespace mydev::device_kernels
