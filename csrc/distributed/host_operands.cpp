#include "distributed/host_operands.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "aten/core/device_type.h"
#include "aten/host/sparse.h"
#include "aten/memory/device_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

at::Tensor held(const at::Tensor& tensor) {
  if (!tensor.defined() || !on_device(tensor) || !current_stream(tensor.get_device()).asynchronous()) return tensor;
  if (is_sparse(tensor)) return tensor;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor alias = tensor.detach();
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (Block* block = block_of(storage)) {
    retain(*block);
    alias.unsafeGetTensorImpl()->set_storage_keep_dtype(
        device_storage(device_data_ptr(*block, tensor.get_device()), storage.nbytes()));
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
  return stage_dense(tensor, /*with_values=*/true).host;
}

at::Tensor HostOperands::update(const at::Tensor& tensor) {
  return write_staged(tensor, /*with_values=*/true);
}

at::Tensor HostOperands::write(const at::Tensor& tensor) {
  return write_staged(tensor, /*with_values=*/false);
}

at::Tensor HostOperands::write_staged(const at::Tensor& tensor, bool with_values) {
  StagingTensor staging = stage_dense(tensor, with_values);
  if (staging.alias != nullptr) return std::move(staging.host);
  return written_.emplace_back(std::move(staging)).host;
}

void HostOperands::end() {
  for (const auto& step : steps_) step();
  for (const StagingTensor& staging : written_) copy_dense_back(staging);
  steps_.clear();
  written_.clear();
}

}  // namespace mydev
