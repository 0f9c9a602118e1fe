// flip, roll, pixel_shuffle and pixel_unshuffle: copies of views. flip copies a view with negative strides, roll the
// two parts that a dimension falls into. The others copy the view that core's composition makes, in the memory format
// that the CPU's kernels give.
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>

#include "aten/host/composition.h"
#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef rearrange_kernel("mydev.copy", policy::kRearrange);

std::optional<Tensor> flip(const Tensor& self, c10::IntArrayRef dims) {
  const Launchable* kernel = on_device(self) ? rearrange_kernel.on(self) : nullptr;
  if (kernel == nullptr || !has_frame_type(self) || self.dim() > kMaxRank) {
    return std::nullopt;
  }
  const auto flipped = at::dim_list_to_bitset(dims, static_cast<size_t>(self.dim()));
  const Tensor out = empty_laid_out_as(self, self.scalar_type());
  if (out.numel() == 0) return out;
  at::DimVector strides(self.strides());
  int64_t first = 0;  // element that comes first
  for (size_t d = 0; d < strides.size(); ++d) {
    if (!flipped[d]) continue;
    first += strides[d] * (self.sizes()[d] - 1);
    strides[d] = -strides[d];
  }
  mydev_buffer in = input_buffer_of(self, self.sizes(), strides);
  in.data = static_cast<char*>(in.data) + first * static_cast<int64_t>(self.itemsize());
  launch_on(*kernel, self, 1, {buffer_of(out), in}, {bool_attribute("conj", false), bool_attribute("neg", false)});
  return out;
}

Tensor roll_along(const Tensor& self, int64_t shift, int64_t dim) {
  const int64_t size = self.size(dim), start = ((size - shift % size) % size + size) % size;
  return at::cat({self.narrow(dim, start, size - start), self.narrow(dim, 0, start)}, dim);
}

std::optional<Tensor> roll(const Tensor& self, c10::SymIntArrayRef given_shifts, c10::IntArrayRef dims) {
  const c10::IntArrayRef shifts = C10_AS_INTARRAYREF_SLOW(given_shifts);
  if (!on_device(self) || rearrange_kernel.on(self) == nullptr || self.numel() == 0 || shifts.empty())
    return std::nullopt;
  if (dims.empty() && shifts.size() == 1) {
    return roll_along(self.contiguous().view({self.numel()}), shifts[0], 0).view(self.sizes());
  }
  if (dims.size() != shifts.size() || self.dim() == 0) return std::nullopt;
  Tensor rolled = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    rolled = roll_along(rolled, shifts[i], at::maybe_wrap_dim(dims[i], self.dim()));
  }
  return rolled;
}

template <class Op>
std::optional<Tensor> shuffle(const Tensor& self, int64_t factor) {
  if (!on_device(self) || rearrange_kernel.on(self) == nullptr) return std::nullopt;
  const Tensor shuffled = Op::redispatch(kCompositionKeys, self, factor);
  const at::MemoryFormat format = self.suggest_memory_format();
  // An image of a single channel is channels-last as it is, but not with the strides that the CPU gives it.
  return format == at::MemoryFormat::Contiguous ? shuffled.contiguous() : shuffled.clone(format);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::flip, &flip>(m);
  register_native<at::_ops::roll, &roll>(m);
  register_native<at::_ops::pixel_shuffle, &shuffle<at::_ops::pixel_shuffle>>(m);
  register_native<at::_ops::pixel_unshuffle, &shuffle<at::_ops::pixel_unshuffle>>(m);
}

}  // namespace
}  // namespace mydev
