// Staging tensors: the CPU tensors that stand for device tensors while host code works on them, and the device storages
// that take ownership of what it leaves.
//
// If the host can reach the device's memory, a staging tensor is an alias (alias.h), and nothing is copied. Elsewhere,
// or if it must be dense but the tensor is not, it is a copy, which is copied back. The caller orders all this with the
// device's work and opens its memory (HostScope, HostAccess). Not thread-safe: each belongs to one call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "aten/host/alias.h"
#include "aten/host/host_copies.h"
#include "runtime/base/api.h"

namespace mydev {

struct StagingTensor {
  at::Tensor origin;  // what it stands for; for a copy of an alias, that alias
  at::Tensor host;
  c10::intrusive_ptr<c10::StorageImpl> alias;  // the storage that `host` was made over; null for a copy
};

// Returns a staging tensor that is laid out like `tensor`, and is a wrapped number if `tensor` is one. A copy is among
// `copies`, which the caller waits for.
StagingTensor stage(const at::Tensor& tensor, HostCopies& copies);

// Returns a dense staging tensor without conj and neg bits. A copy of memory that the host cannot reach is in pinned
// memory. If `with_values` is false, a copy has arbitrary values.
MYDEV_API StagingTensor stage_dense(const at::Tensor& tensor, bool with_values);

// Copies the result of stage_dense back into its origin, whatever the origin's strides.
MYDEV_API void copy_dense_back(const StagingTensor& dense);

// The device storages behind the CPU storages of one call: tensors that share memory on the host share it on the
// device.
class MYDEV_API DeviceStorages {
 public:
  void add(c10::intrusive_ptr<c10::StorageImpl> host, c10::Storage storage) {
    storages_.emplace_back(std::move(host), std::move(storage));
  }
  // Returns a storage that was added or made before, else one that takes ownership of the memory of `host`
  // (take_host_storage).
  c10::Storage of(c10::StorageImpl& host, c10::Device device);

 private:
  c10::SmallVector<std::pair<c10::intrusive_ptr<c10::StorageImpl>, c10::Storage>, 4> storages_;
};

}  // namespace mydev
