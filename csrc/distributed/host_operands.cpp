#include "distributed/host_operands.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "aten/host/alias.h"
#include "aten/host/sparse.h"
#include "aten/launch/native_launch.h"
#include "aten/memory/device_allocator.h"
#include "runtime/stream_table.h"

namespace mydev {

at::Tensor held(const at::Tensor& tensor) {
  if (!tensor.defined() || !on_device(tensor) || !current_stream(tensor.get_device()).asynchronous()) return tensor;
  if (is_sparse(tensor)) return tensor;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor alias = tensor.detach();
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (Block* block = block_of(storage)) {
    retain(*block);
    alias.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), storage.nbytes(), device_data_ptr(*block, tensor.get_device()),
        device_allocator(), /*resizable=*/true));
  }
  return alias;
}

std::vector<at::Tensor> held(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) result.push_back(held(tensor));
  return result;
}

std::vector<std::vector<at::Tensor>> held(const std::vector<std::vector<at::Tensor>>& lists) {
  std::vector<std::vector<at::Tensor>> result;
  result.reserve(lists.size());
  for (const std::vector<at::Tensor>& list : lists) result.push_back(held(list));
  return result;
}

at::Tensor HostOperands::read(const at::Tensor& tensor) {
  return stand_in(tensor, /*with_values=*/true, /*written=*/false);
}

at::Tensor HostOperands::update(const at::Tensor& tensor) {
  return stand_in(tensor, /*with_values=*/true, /*written=*/true);
}

at::Tensor HostOperands::write(const at::Tensor& tensor) {
  return stand_in(tensor, /*with_values=*/false, /*written=*/true);
}

at::Tensor HostOperands::stand_in(const at::Tensor& tensor, bool with_values, bool written) {
  const bool dense = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
  at::Tensor origin = tensor;
  at::TensorOptions options = tensor.options().device(c10::kCPU).layout(c10::kStrided);
  if (device_->host_accessible()) {
    origin = host_alias(tensor);
    if (dense) return origin;
  } else {
    options = options.pinned_memory(true);
  }
  at::Tensor copy = at::empty(tensor.sizes(), options);
  if (with_values) copy.copy_(origin);
  if (written) written_.emplace_back(std::move(origin), copy);
  return copy;
}

void HostOperands::end() {
  for (const auto& step : steps_) step();
  for (auto& [destination, copy] : written_) destination.copy_(copy);
  steps_.clear();
  written_.clear();
}

}  // namespace mydev
