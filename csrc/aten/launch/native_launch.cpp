#include "aten/launch/native_launch.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include "aten/memory/device_allocator.h"

namespace mydev {

const mydev_kernel KernelRef::absent_{};

const mydev_kernel* KernelRef::resolve(int device_index) {
  const mydev_kernel* kernel = resolve_kernel(device(device_index), name_);
  resolved_[static_cast<size_t>(device_index)].store(kernel == nullptr ? &absent_ : kernel, std::memory_order_release);
  return kernel;
}

void check_same_device(const char* op, std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors) {
  const at::Tensor* first = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!on_device(tensor)) {
      continue;
    }
    if (first == nullptr) first = &tensor;
    TORCH_CHECK(tensor.device() == first->device(), op, ": expected all tensors to be on the same device, but found ",
                first->device(), " and ", tensor.device(), "; move one of them with .to()");
  }
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(first == nullptr || !tensor.defined() || on_device(tensor) || (tensor.is_cpu() && tensor.dim() == 0),
                op, ": expected all tensors to be on the same device, but found at least two devices, ",
                first->device(), " and ", tensor.device(), "; move one of them with .to()");
  }
}

at::Tensor empty_dense(c10::IntArrayRef sizes, c10::ScalarType dtype, c10::Device device) {
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(dtype);
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const size_t bytes = static_cast<size_t>(count) * meta.itemsize();
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, allocate_device_memory(device.index(), bytes), device_allocator(),
      /*resizable=*/true);
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(kDispatchKey), meta);
  if (sizes.size() != 1 || sizes[0] != 0) impl->set_sizes_contiguous(sizes);
  return at::Tensor(std::move(impl));
}

at::Tensor empty_strided_on(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                            c10::Device device) {
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(dtype);
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, allocate_device_memory(device.index(), bytes), device_allocator(),
      /*resizable=*/true);
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(kDispatchKey), meta);
  impl->set_sizes_and_strides(sizes, strides);
  return at::Tensor(std::move(impl));
}

void Scratch::reserve(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream) {
  const uint64_t bytes = kernel.scratch_bytes(&frame);
  if (bytes == 0) return;
  block_ = allocate(stream, bytes);
  frame.scratch = block_->data;
  frame.scratch_bytes = bytes;
}

}  // namespace mydev
