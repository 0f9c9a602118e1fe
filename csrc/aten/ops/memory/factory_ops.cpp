// Ops that make tensors without contents, and those that only look at a tensor's metadata differently.
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "aten/launch/native_launch.h"
#include "aten/memory/device_allocator.h"
#include "aten/memory/uninitialized_memory.h"

namespace mydev {
namespace {

// The index of the device that a factory is asked for, checked.
int factory_device(std::optional<at::Device> requested, std::optional<at::Layout> layout,
                   std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "pin_memory is for tensors on the CPU; a tensor on ", kDeviceType,
              " cannot be pinned");
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided, kDeviceType,
                              " has strided tensors only, got layout ", layout.value_or(at::kStrided));
  const int index = requested.has_value() && requested->has_index() ? requested->index() : current_device();
  device(index);
  return index;
}

// The dtype that a factory is asked for. The CPU warns once of a complex half: its factory does that here too.
at::ScalarType factory_dtype(std::optional<at::ScalarType> requested) {
  const at::ScalarType dtype = requested.value_or(at::get_default_dtype_as_scalartype());
  if (C10_UNLIKELY(dtype == at::kComplexHalf)) at::detail::empty_cpu({0}, dtype);
  return dtype;
}

at::Tensor empty_memory_format(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> requested,
                               std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  const int index = factory_device(requested, layout, pin_memory);
  at::detail::check_size_nonnegative(sizes);
  at::Tensor tensor = empty_dense(sizes, factory_dtype(dtype), {kDeviceType, static_cast<c10::DeviceIndex>(index)});
  if (memory_format.has_value() && *memory_format != at::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  if (fills_uninitialized_memory()) [[unlikely]]
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> requested,
                         std::optional<bool> pin_memory) {
  const int index = factory_device(requested, layout, pin_memory);
  at::Tensor tensor =
      empty_strided_on(sizes, strides, factory_dtype(dtype), {kDeviceType, static_cast<c10::DeviceIndex>(index)});
  if (fills_uninitialized_memory()) [[unlikely]]
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

// A tensor of zeros without memory, which autograd makes; ops on it end in core's handler of the ZeroTensor key.
at::Tensor efficient_zero_tensor(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout, std::optional<at::Device> requested,
                                 std::optional<bool> pin_memory) {
  const int index = factory_device(requested, layout, pin_memory);
  at::native::ZeroTensorAllocator allocator({kDeviceType, static_cast<c10::DeviceIndex>(index)});
  return at::detail::empty_generic(
      sizes, &allocator, c10::DispatchKeySet(kDispatchKey) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
      dtype.value_or(at::get_default_dtype_as_scalartype()), std::nullopt);
}

// A view never touches memory: core's own kernels serve any strided tensor.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty_memory_format);
  m.impl("empty_strided", &empty_strided);
  m.impl("_efficientzerotensor", &efficient_zero_tensor);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
}

}  // namespace
}  // namespace mydev
