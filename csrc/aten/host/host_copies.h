// Host copies of one call's operands, where the host does not reach the device's memory.
//
// A storage of the device gets one host storage of the same size, in which operands lie where they lie on the device:
// with their strides, overlapping if they overlap, sharing memory if they share it. So a CPU kernel lays results out,
// and refuses, as on the CPU. Only bytes that operands lie in are copied, and so touched. Storages of 32 MiB or less
// are page-locked memory, from which nothing waits before wait(). Not thread-safe: one object serves one call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <utility>

namespace mydev {

class HostCopies {
 public:
  // Returns a CPU tensor that is laid out like `tensor`; its contents are there after wait(). Raises failures of the
  // driver, and of earlier work of the current stream.
  at::Tensor add(const at::Tensor& tensor);
  void wait();
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Storage {
    const c10::StorageImpl* device;
    c10::Storage host;
    bool pinned;
    c10::SmallVector<std::pair<uint64_t, uint64_t>, 2> copied;  // in bytes, from and to
  };
  Storage& storage_of(const at::Tensor& tensor);
  void copy(Storage& storage, const at::Tensor& tensor, const at::Tensor& host);

  c10::SmallVector<Storage, 4> storages_;
  int pending_ = -1;  // the device that copies were enqueued on
  uint64_t bytes_ = 0;
};

// Copies the contents that a kernel left in `host`, a copy of `origin`, back to `origin`; sizes and strides too, if
// they were changed.
void copy_back(const at::Tensor& origin, const at::Tensor& host);

}  // namespace mydev
