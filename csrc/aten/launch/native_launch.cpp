#include "aten/launch/native_launch.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include "aten/memory/device_allocator.h"

namespace mydev {

const Launchable* KernelRef::resolve(int device_index) {
  const Device& on = device(device_index);
  std::atomic<Absence>& absence = absences_[static_cast<size_t>(device_index)];
  if (absence.load(std::memory_order_acquire) == Absence::kUnknown) {
    const bool aliased = runs_ == BuiltinRuns::kWithoutHostAccess && on.host_accessible();
    const Launchable* kernel = aliased                           ? resolve_drivers_kernel(on, name_)
                               : runs_ == BuiltinRuns::kOnCopies ? resolve_step(on, name_)
                                                                 : resolve_kernel(on, name_);
    if (kernel != nullptr) {
      resolved_[static_cast<size_t>(device_index)].store(kernel, std::memory_order_release);
      return kernel;
    }
    const bool has_when_captured = aliased || !on.host_computes();
    absence.store(has_when_captured ? Absence::kUnlessCaptured : Absence::kAlways, std::memory_order_release);
  }
  const bool may_have = absence.load(std::memory_order_acquire) == Absence::kUnlessCaptured;
  return may_have && current_stream(device_index).capture() != nullptr ? resolve_step(on, name_) : nullptr;
}

namespace {

// Bytes of a contiguous tensor. Core's function raises if they overflow, unless a dimension has size 0.
size_t dense_bytes(c10::IntArrayRef sizes, size_t itemsize) {
  int64_t bytes = static_cast<int64_t>(itemsize);
  bool overflows = false;
  for (const int64_t size : sizes) overflows |= __builtin_mul_overflow(bytes, size, &bytes);
  if (C10_UNLIKELY(overflows)) return at::detail::computeStorageNbytesContiguous(sizes, itemsize);
  return static_cast<size_t>(bytes);
}

}  // namespace

at::Tensor empty_dense(c10::IntArrayRef sizes, c10::ScalarType dtype, c10::Device device) {
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(dtype);
  const size_t bytes = dense_bytes(sizes, meta.itemsize());
  c10::Storage storage = device_storage(allocate_device_memory(device.index(), bytes), bytes);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(kDispatchKey), meta);
  if (sizes.size() != 1 || sizes[0] != 0) impl->set_sizes_contiguous(sizes);
  return at::Tensor(std::move(impl));
}

at::Tensor empty_strided_on(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                            c10::Device device) {
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(dtype);
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  c10::Storage storage = device_storage(allocate_device_memory(device.index(), bytes), bytes);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(kDispatchKey), meta);
  impl->set_sizes_and_strides(sizes, strides);
  return at::Tensor(std::move(impl));
}

at::Tensor empty_in_format(c10::IntArrayRef sizes, c10::MemoryFormat format, c10::ScalarType dtype,
                           c10::Device device) {
  switch (format) {
    case c10::MemoryFormat::ChannelsLast:
      return empty_strided_on(sizes, c10::get_channels_last_strides_2d(sizes), dtype, device);
    case c10::MemoryFormat::ChannelsLast3d:
      return empty_strided_on(sizes, c10::get_channels_last_strides_3d(sizes), dtype, device);
    default:
      return empty_dense(sizes, dtype, device);
  }
}

bool has_standard_strides(const at::TensorBase& tensor) {
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (strides[d] != expected) return false;
    expected *= std::max<int64_t>(sizes[d], 1);
  }
  return true;
}

at::Tensor empty_laid_out_as(const at::TensorBase& like, c10::ScalarType dtype) {
  if (like.is_non_overlapping_and_dense()) return empty_strided_on(like.sizes(), like.strides(), dtype, like.device());
  return empty_strided_on(like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()), dtype, like.device());
}

}  // namespace mydev
