// arange. Sizes and errors by core's rule.
#include <ATen/Operators.h>
#include <ATen/native/RangeUtils.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef arange_kernel("mydev.arange");

Tensor* arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  const mydev_kernel* kernel = on_device(out) ? arange_kernel.on(out) : nullptr;
  const at::ScalarType type = out.scalar_type();
  const bool integral = is_small_integral(type) && type != at::kBool;
  if (kernel == nullptr || (!integral && !is_real_float(type)) || type == at::kUInt16 || type == at::kUInt32 ||
      type == at::kUInt64 || start.isComplex() || end.isComplex() || step.isComplex()) {
    return nullptr;
  }
  const int64_t size = type == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                                         : at::native::compute_arange_size<double>(start, end, step);
  if (out.numel() != size) {
    if (out.numel() > 0) return nullptr;  // the CPU's kernel warns
    out.resize_({size});
  }
  if (out.dim() != 1) return nullptr;
  if (size == 0) return &out;
  OpFrame<1, 2> frame;
  frame.add(out);
  if (integral) {
    frame.attribute(int_attribute("start", start.to<int64_t>())).attribute(int_attribute("step", step.to<int64_t>()));
  } else {
    frame.attribute(float_attribute("start", start.to<double>())).attribute(float_attribute("step", step.to<double>()));
  }
  frame.launch(*kernel, 1);
  return &out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::arange_start_out, &arange_out>(m);
}

}  // namespace
}  // namespace mydev
