#include "aten/host/staging.h"

#include <ATen/Functions.h>

namespace mydev {
namespace {

bool host_reaches(const at::Tensor& tensor) {
  return device(tensor.device().index()).host_accessible();
}

StagingTensor stage_alias(const at::Tensor& tensor) {
  auto storage = alias_storage(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  return {tensor, alias_over(storage, tensor), std::move(storage)};
}

}  // namespace

StagingTensor stage(const at::Tensor& tensor, HostCopies& copies) {
  if (host_reaches(tensor)) return stage_alias(tensor);
  return {tensor, copies.add(tensor), {}};
}

StagingTensor stage_dense(const at::Tensor& tensor, bool with_values) {
  const bool reached = host_reaches(tensor);
  at::Tensor origin = tensor;
  if (reached) {
    StagingTensor alias = stage_alias(tensor);
    if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) return alias;
    origin = std::move(alias.host);
  }
  const at::TensorOptions options = tensor.options().device(c10::kCPU).layout(c10::kStrided).pinned_memory(!reached);
  at::Tensor copy = at::empty(tensor.sizes(), options);
  if (with_values) copy.copy_(origin);
  return {std::move(origin), std::move(copy), {}};
}

void copy_dense_back(const StagingTensor& dense) {
  dense.origin.copy_(dense.host);
}

c10::Storage DeviceStorages::of(c10::StorageImpl& host, c10::Device device) {
  for (const auto& [known, storage] : storages_) {
    if (known.get() == &host) return storage;
  }
  storages_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&host), take_host_storage(host, device));
  return storages_.back().second;
}

}  // namespace mydev
