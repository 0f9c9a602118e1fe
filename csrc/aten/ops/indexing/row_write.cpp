#include "aten/ops/indexing/row_write.h"

#include "kernels/spec/contract.h"

namespace mydev {
namespace {

using BlockSizes = std::array<int64_t, 3>;

BlockSizes block_strides(const BlockSizes& sizes) {
  return {sizes[1] * sizes[2], sizes[2], 1};
}

}  // namespace

RowShape::RowShape(c10::IntArrayRef sizes, int64_t first, int64_t last) {
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
    (d < first ? outer : d < last ? places : inner) *= sizes[static_cast<size_t>(d)];
  }
}

void read_rows(const Launchable& select, const at::Tensor& out, const at::Tensor& in, const RowShape& shape,
               const at::Tensor& index) {
  const int64_t count = index.numel(), stride = index.dim() == 0 ? 1 : index.stride(0);
  const BlockSizes out_sizes = {shape.outer, count, shape.inner}, in_sizes = {shape.outer, shape.places, shape.inner};
  const BlockSizes out_strides = block_strides(out_sizes), in_strides = block_strides(in_sizes);
  launch_on(select, out, 1,
            {buffer_of(out, out_sizes, out_strides), input_buffer_of(in, in_sizes, in_strides),
             input_buffer_of(index, {&count, 1}, {&stride, 1})});
}

void write_rows(const Launchable& kernel, const at::Tensor& target, const RowShape& shape, const at::Tensor& index,
                const at::Tensor& values) {
  const at::Tensor dense = target.contiguous();
  const int64_t count = index.numel(), stride = index.dim() == 0 ? 1 : index.stride(0);
  const BlockSizes out_sizes = {shape.outer, shape.places, shape.inner}, out_strides = block_strides(out_sizes);
  const at::Tensor rows = values.reshape({shape.outer, count, shape.inner}).contiguous();
  launch_on(kernel, target, 1,
            {buffer_of(dense, out_sizes, out_strides), input_buffer_of(index, {&count, 1}, {&stride, 1}),
             input_buffer_of(rows)});
  if (!dense.is_same(target)) target.copy_(dense);
}

bool is_addable(c10::ScalarType type) {
  static const uint64_t types = contract_dtypes("mydev.index_add", 'T');
  const mydev_dtype dtype = to_frame_dtype(type);
  return dtype != MYDEV_DTYPE_INVALID && (types & MYDEV_DTYPE_BIT(dtype)) != 0;
}

}  // namespace mydev
