// fill_ and zero_: one launch of mydev.fill over any layout, or where the device has no such kernel, the driver's fill
// over dense memory. Elements may share memory: each becomes the same value.
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>

#include "aten/core/number.h"
#include "aten/ops/pointwise/pointwise.h"
#include "runtime/command/transfer.h"

namespace mydev {
namespace {

namespace ops = at::_ops;

KernelRef fill_kernel("mydev.fill");

// Returns false if the device has no such kernel, or the tensor's dtype does not have the value.
bool launch_fill(const at::Tensor& self, const c10::Scalar& value) {
  if (!has_attribute(value)) return false;
  const Launchable* kernel = fill_kernel.on(self);
  mydev_attribute attribute = number_attribute("value", value);
  if (kernel == nullptr || !has_frame_type(self) || self.dim() > kMaxRank ||
      !fit_number(attribute, self.scalar_type(), /*round=*/true)) {
    return false;
  }
  if (self.numel() == 0) return true;
  OpFrame<1, 1> frame;
  frame.add(self).attribute(attribute).launch(*kernel, 1);
  return true;
}

// Returns false if the host fills the memory as fast, the driver has no fill, or the tensor does not lie in one piece.
// The CPU converts the value to the tensor's dtype, and refuses a value that the dtype does not have; it treats one
// element and several differently.
bool fill_by_driver(const at::Tensor& self, const c10::Scalar& value) {
  Stream& stream = current_stream(self.get_device());
  const Device& device = stream.device();
  if (device.host_computes() || device.driver->fill == nullptr || !self.is_non_overlapping_and_dense() ||
      self.is_quantized()) {
    return false;
  }
  const at::Tensor element = at::empty({self.numel() == 1 ? 1 : 2}, self.options().device(c10::kCPU)).fill_(value);
  fill_bytes(stream, self.mutable_data_ptr(), self.nbytes(), element.const_data_ptr(),
             static_cast<uint32_t>(element.itemsize()));
  return true;
}

// Returns false if neither a kernel nor the driver fills the tensor.
template <class Op>
bool fill_on_device(const at::Tensor& self, const c10::Scalar& value) {
  const auto by_kernel = [&] { return try_kernels<Op>([&] { return launch_fill(self, value); }); };
  if (fill_kernel.is_for_graphs(self.get_device())) return fill_by_driver(self, value) || by_kernel();
  return by_kernel() || fill_by_driver(self, value);
}

at::Tensor& fill_scalar(at::Tensor& self, const c10::Scalar& value) {
  if (fill_on_device<ops::fill__Scalar>(self, value)) return self;
  return BoxedFallback<ops::fill__Scalar>::call(self, value);
}

at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  at::assert_no_internal_overlap(self);  // as the CPU, though it fills such elements with a number
  if (value.is_cpu()) return fill_scalar(self, value.to(self.scalar_type()).item());
  return self.copy_(value);  // broadcast on the device: nothing waits
}

at::Tensor& zero(at::Tensor& self) {
  return fill_on_device<ops::zero_>(self, 0) ? self : BoxedFallback<ops::zero_>::call(self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_op<ops::fill__Scalar>(m, &fill_scalar);
  register_op<ops::fill__Tensor>(m, &fill_tensor);
  register_op<ops::zero_>(m, &zero);
}

}  // namespace
}  // namespace mydev
