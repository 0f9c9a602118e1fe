#include "aten/host/nested.h"

#include <ATen/NativeFunctions.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "aten/core/device_type.h"
#include "aten/host/alias.h"
#include "aten/host/components.h"

namespace mydev {
namespace {

// Sizes, strides or offsets that a CPU kernel left in the device's memory, which the host must read at any time.
at::Tensor in_host_memory(const at::Tensor& metadata, const at::Tensor& buffer) {
  if (!on_device(buffer) || !is_scope_memory(*metadata.storage().unsafeGetStorageImpl())) return metadata;
  const HostAccess access(device(buffer.get_device()));
  return metadata.clone();
}

// The key of an accelerator without any kernel of its own in this build of core, for which core registers the nested
// operators that are compositions of others.
constexpr c10::DispatchKey kCompositions = c10::DispatchKey::NestedTensorHPU;

void compose_nested(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(kCompositions), stack);
}

// These call the CPU's loops on the buffer by themselves.
bool touches_memory(const std::string& name) {
  return name == "aten::native_layer_norm" || name == "aten::native_layer_norm_backward";
}

}  // namespace

at::Tensor nested_buffer(const at::Tensor& nested) {
  return whole_storage(nested, nested.dtype());
}

at::Tensor nested_over(const at::Tensor& buffer, const at::Tensor& nested) {
  const at::native::NestedTensorImpl& impl = *at::native::get_nested_tensor_impl(nested);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, in_host_memory(impl.get_nested_sizes(), buffer),
                                                               in_host_memory(impl.get_nested_strides(), buffer),
                                                               in_host_memory(impl.get_storage_offsets(), buffer));
}

void set_nested(const at::Tensor& destination, const at::Tensor& buffer) {
  if (!destination.is_alias_of(buffer)) destination.unsafeGetTensorImpl()->set_storage_keep_dtype(buffer.storage());
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (op.has_value() && op->hasKernelForDispatchKey(kCompositions) && !touches_memory(name.name)) {
      m.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&compose_nested>());
    }
  }
  m.impl("_nested_tensor_storage_offsets", &at::native::_nested_tensor_storage_offsets);
  m.impl("value_selecting_reduction_backward", &at::native::value_selecting_reduction_backward_nested_symint);
  m.impl("to_padded_tensor", &at::native::NestedTensor_to_padded_tensor_generic);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_from_padded", &at::native::nested_from_padded_generic);
  m.impl("_nested_view_from_buffer", &at::native::_nested_view_from_buffer);
  m.impl("_nested_tensor_from_mask", &at::native::NestedTensor_nested_tensor_from_mask);
  m.impl("_nested_tensor_from_mask_left_aligned", &at::native::NestedTensor_nested_tensor_from_mask_left_aligned);
}

}  // namespace mydev
