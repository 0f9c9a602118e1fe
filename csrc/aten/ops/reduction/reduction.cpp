#include "aten/ops/reduction/reduction.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include <algorithm>

namespace mydev {
namespace {

at::native::DimMask reduced_dims(const at::Tensor& self, const ReductionRequest& request) {
  const at::OptionalIntArrayRef dims =
      request.dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(at::IntArrayRef(request.dims));
  return at::native::make_dim_mask(dims, self.dim());
}

at::Tensor prepare_output(const at::Tensor* out, at::ScalarType dtype, const at::Tensor& self, at::IntArrayRef sizes) {
  if (out == nullptr) return empty_dense(sizes, dtype, self.device());
  at::native::resize_output(*out, sizes);
  return *out;
}

}  // namespace

bool has_dims_once(const at::Tensor& self, const ReductionRequest& request) {
  const int64_t rank = std::max<int64_t>(self.dim(), 1);
  at::native::DimMask seen;
  for (const int64_t dim : request.dims) {
    if (dim < -rank || dim >= rank) return false;
    const auto wrapped = static_cast<size_t>(dim < 0 ? dim + rank : dim);
    if (wrapped >= seen.size() || seen[wrapped]) return false;
    seen[wrapped] = true;
  }
  return true;
}

bool is_reducible(const at::Tensor& self) {
  const at::ScalarType type = self.scalar_type();
  return self.dim() <= kMaxRank && type != at::kUInt16 && type != at::kUInt32 && type != at::kUInt64;
}

ReducedShape::ReducedShape(const at::Tensor& self, const ReductionRequest& request)
    : mask(reduced_dims(self, request)),
      keepdim(request.keepdim),
      sizes(at::native::shape_from_dim_mask(self, mask, keepdim)) {}

ReducedOutput::ReducedOutput(at::Tensor tensor, const at::Tensor& self, const ReducedShape& shape)
    : tensor_(std::move(tensor)) {
  if (!tensor_.defined()) return;
  strides_.resize(static_cast<size_t>(self.dim()));
  for (int64_t d = 0, o = 0; d < self.dim(); ++d) {
    const size_t at = static_cast<size_t>(d);
    strides_[at] = shape.mask[at] ? 0 : tensor_.stride(o);
    if (!shape.mask[at] || shape.keepdim) ++o;
  }
}

ReducedOutput::ReducedOutput(const at::Tensor* out, at::ScalarType dtype, const at::Tensor& self,
                             const ReducedShape& shape)
    : ReducedOutput(prepare_output(out, dtype, self, shape.sizes), self, shape) {}

mydev_buffer ReducedOutput::buffer(const at::Tensor& self) const {
  if (!tensor_.defined()) return absent_buffer(to_frame_dtype(self.scalar_type()));
  return buffer_of(tensor_, self.sizes(), strides_);
}

}  // namespace mydev
