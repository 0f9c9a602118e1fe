// cat. (stack is core's composite over it.)
//
// Tensors of several dtypes are cast to their common type first; the bytes are then joined. 1-D tensors of no elements
// are skipped, as on the CPU, whatever the other tensors' shape.
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef concatenate_kernel("mydev.concatenate");

bool is_skipped(const Tensor& tensor) {
  return tensor.dim() == 1 && tensor.size(0) == 0;
}

bool can_join(const Tensor& tensor, const Tensor& model, int64_t dim) {
  if (tensor.dim() != model.dim()) return false;
  for (int64_t d = 0; d < model.dim(); ++d) {
    if (d != dim && tensor.size(d) != model.size(d)) return false;
  }
  return true;
}

std::optional<Tensor> concatenate(const at::ITensorListRef& list, int64_t dim, const Tensor* given) {
  const at::MaterializedITensorListRef tensors = list.materialize();
  const Tensor* model = nullptr;
  bool one_dtype = true;
  for (const Tensor& tensor : tensors) {
    if (given != nullptr && !is_skipped(tensor)) at::assert_no_overlap(*given, tensor);
    if (!on_device(tensor) || tensor.device() != tensors[0].get().device() || tensor.dim() == 0 ||
        tensor.layout() != at::kStrided || !has_frame_type(tensor)) {
      return std::nullopt;
    }
    one_dtype = one_dtype && tensor.scalar_type() == tensors[0].get().scalar_type();
    if (model == nullptr && !is_skipped(tensor)) model = &tensor;
  }
  if (model == nullptr) return std::nullopt;
  const Launchable* kernel = concatenate_kernel.on(*model);
  const at::ScalarType dtype = one_dtype ? model->scalar_type() : at::native::result_type(tensors);
  if (kernel == nullptr || model->suggest_memory_format() != c10::MemoryFormat::Contiguous) return std::nullopt;
  const int64_t wrapped = at::maybe_wrap_dim(dim, model->dim());
  at::DimVector shape(model->sizes());
  shape[static_cast<size_t>(wrapped)] = 0;
  c10::SmallVector<Tensor, 8> parts;
  for (const Tensor& tensor : tensors) {
    if (is_skipped(tensor)) continue;
    if (!can_join(tensor, *model, wrapped)) return std::nullopt;
    if (given != nullptr && !writable_as(*given, dtype, tensor)) return std::nullopt;
    shape[static_cast<size_t>(wrapped)] += tensor.size(wrapped);
    parts.push_back(tensor.scalar_type() == dtype ? tensor.contiguous() : tensor.to(dtype).contiguous());
  }
  if (given != nullptr) at::native::resize_output(*given, shape);
  if (given != nullptr && !given->is_contiguous()) return std::nullopt;
  const Tensor out = given != nullptr ? *given : empty_dense(shape, dtype, model->device());
  if (out.numel() == 0) return out;

  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < model->dim(); ++d) {
    if (d != wrapped) (d < wrapped ? outer : inner) *= model->size(d);
  }
  c10::SmallVector<std::array<int64_t, 3>, 8> sizes, strides;
  sizes.push_back({outer, shape[static_cast<size_t>(wrapped)], inner});
  for (const Tensor& part : parts) sizes.push_back({outer, part.size(wrapped), inner});
  for (const auto& s : sizes) strides.push_back({s[1] * s[2], s[2], 1});
  c10::SmallVector<mydev_buffer, 8> buffers;
  for (size_t i = 0; i < sizes.size(); ++i) {
    buffers.push_back(i == 0 ? buffer_of(out, sizes[i], strides[i])
                             : input_buffer_of(parts[i - 1], sizes[i], strides[i]));
  }
  launch_on(*kernel, out, 1, {buffers.data(), buffers.size()});
  return out;
}

std::optional<Tensor> cat(const at::ITensorListRef& tensors, int64_t dim) {
  return tensors.size() == 0 ? std::nullopt : concatenate(tensors, dim, nullptr);
}
Tensor* cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  return tensors.size() != 0 && concatenate(tensors, dim, &out).has_value() ? &out : nullptr;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::cat, &cat>(m);
  register_native<at::_ops::cat_out, &cat_out>(m);
}

}  // namespace
}  // namespace mydev
