// Rows of a tensor are written, or added to, in the places that a vector of indices gives: mydev.index_copy and
// mydev.index_add.
#pragma once

#include "aten/launch/native_launch.h"

namespace mydev {

inline KernelRef row_select_kernel("mydev.index_select", policy::kWriteRows);
inline KernelRef row_copy_kernel("mydev.index_copy", policy::kWriteRows);
inline KernelRef row_add_kernel("mydev.index_add", policy::kWriteRows);

// A tensor as [outer, places, inner].
struct RowShape {
  int64_t outer = 1, places = 1, inner = 1;
  // Takes dimensions [first, last) for places.
  RowShape(c10::IntArrayRef sizes, int64_t first, int64_t last);
};

// out[o,i,:] = in[o,index[i],:] by mydev.index_select, for a tensor `in` of that shape; both are contiguous.
void read_rows(const Launchable& select, const at::Tensor& out, const at::Tensor& in, const RowShape& shape,
               const at::Tensor& index);

// Writes `values`, which has as many elements as `index` for places, into `target`, of any strides, or adds them there.
void write_rows(const Launchable& kernel, const at::Tensor& target, const RowShape& shape, const at::Tensor& index,
                const at::Tensor& values);

// Whether mydev.index_add takes elements of the type.
bool is_addable(c10::ScalarType type);

}  // namespace mydev
