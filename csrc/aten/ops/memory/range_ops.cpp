// arange and linspace, sizes and errors by core's rule; and eye.
#include <ATen/Operators.h>
#include <ATen/native/RangeUtils.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef arange_kernel("mydev.arange");
KernelRef linspace_kernel("mydev.arange", policy::kLinspace);
KernelRef eye_kernel("mydev.fill", policy::kEye);

Tensor* arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  const Launchable* kernel = on_device(out) ? arange_kernel.for_operand(out) : nullptr;
  const at::ScalarType type = out.scalar_type();
  if (kernel == nullptr || type == at::kBool || start.isComplex() || end.isComplex() || step.isComplex()) {
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
  if (!out.is_floating_point()) {
    frame.attribute(int_attribute("start", start.to<int64_t>())).attribute(int_attribute("step", step.to<int64_t>()));
  } else {
    frame.attribute(float_attribute("start", start.to<double>())).attribute(float_attribute("step", step.to<double>()));
  }
  frame.launch(*kernel, 1);
  return &out;
}

// The first half counts from the start and the second from the end, which is exact, as on the CPU. In half precision
// the CPU rounds the step, too: that is left to it.
Tensor* linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, Tensor& out) {
  const Launchable* kernel = on_device(out) ? linspace_kernel.on(out) : nullptr;
  if (kernel == nullptr || (out.scalar_type() != at::kFloat && out.scalar_type() != at::kDouble) || start.isComplex() ||
      end.isComplex() || steps < 0 || (out.numel() != steps && out.numel() > 0)) {
    return nullptr;
  }
  if (out.numel() != steps) out.resize_({steps});
  if (out.dim() != 1) return nullptr;
  if (steps == 0) return &out;
  const double first = start.to<double>(), last = end.to<double>();
  const double step = steps == 1 ? 0 : (last - first) / static_cast<double>(steps - 1);
  const int64_t half = steps == 1 ? 1 : steps / 2, rest = steps - half, stride = out.stride(0), back = -stride;
  const auto count = [&](mydev_buffer buffer, double from, double by) {
    launch_on(*kernel, out, 1, buffer, {float_attribute("start", from), float_attribute("step", by)});
  };
  count(buffer_of(out, &half, &stride, 1), first, step);
  if (rest == 0) return &out;
  mydev_buffer from_end = buffer_of(out, &rest, &back, 1);
  from_end.data = static_cast<char*>(from_end.data) + (steps - 1) * stride * static_cast<int64_t>(out.itemsize());
  count(from_end, last, -step);
  return &out;
}

Tensor* eye_m_out(c10::SymInt rows, c10::SymInt columns, Tensor& out) {
  const int64_t n = rows.expect_int(), m = columns.expect_int();
  if (!on_device(out) || eye_kernel.on(out) == nullptr || n < 0 || m < 0) return nullptr;
  out.resize_({n, m});
  out.zero_();
  if (n > 0 && m > 0) out.diagonal().fill_(1);
  return &out;
}

Tensor* eye_out(c10::SymInt rows, Tensor& out) {
  return eye_m_out(rows, rows, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::arange_start_out, &arange_out>(m);
  register_native<at::_ops::linspace_out, &linspace_out>(m);
  register_native<at::_ops::eye_out, &eye_out>(m);
  register_native<at::_ops::eye_m_out, &eye_m_out>(m);
}

}  // namespace
}  // namespace mydev
