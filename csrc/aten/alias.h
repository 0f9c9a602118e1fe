// Host aliases of device tensors: how a CPU kernel works on the very memory of a tensor on a host-accessible device.
//
// Policy. A device storage D has at most one host twin H: a CPU StorageImpl over the same memory, made at first need,
// cached in the allocator's Block and dropped with D. H holds a reference to the block, not to D, so an alias may outlive
// the device tensor and there is no cycle. A CPU tensor cannot share D itself: TensorImpl takes its device from its
// storage, so that views made inside a CPU kernel would claim to be on the device.
//
// What a CPU kernel allocates while a HostScope is open on the thread comes from the device's allocator, so its results
// are adopted as device tensors without a copy. Tensors outside such a scope are untouched. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <utility>

#include "runtime/caching_allocator.h"
#include "runtime/device.h"

namespace mydev {

// The block behind a device storage; nullptr if its memory is not from our allocator (from_blob).
Block* block_of(const c10::StorageImpl& storage) noexcept;

// Drops a block's cached twin; called by the deleter of device storages.
void release_host_twin(Block& block) noexcept;

// While open on a thread: host kernels may read and write the device's memory, CPU allocations of this thread come from
// its allocator, dispatch is below autograd, and earlier work of the current stream is finished.
class HostScope {
 public:
  explicit HostScope(int device_index);
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  HostAccess access_;
  int previous_device_;
  c10::impl::ExcludeDispatchKeyGuard below_autograd_;
};

// The CPU tensors that stand for device tensors in one call, and the way back for its results. Use inside a HostScope.
class AliasCall {
 public:
  // Remembers the operand and returns its alias. `written`: the kernel may resize it or give it another storage.
  at::Tensor alias(const at::Tensor& tensor, bool written);
  c10::Storage alias(const c10::Storage& storage);
  // A CPU operand: results that share its storage stay on the CPU.
  void keep_on_cpu(const at::Tensor& tensor);
  // Brings sizes, strides and storages of written operands back. Call once, after the kernel, before to_device.
  void write_back();
  // A CPU result as the caller must see it: the operand itself, a view of an operand, or an adopted fresh tensor.
  at::Tensor to_device(at::Tensor result);

  void set_device(c10::Device device) { device_ = device; }
  c10::Device device() const { return device_; }
  bool has_device() const { return device_.has_index(); }
  bool empty() const { return operands_.empty(); }

 private:
  struct Operand {
    at::Tensor original, alias;
    c10::intrusive_ptr<c10::StorageImpl> twin;
    bool written;
  };
  c10::Storage storage_for(c10::StorageImpl* host);

  c10::SmallVector<Operand, 6> operands_;
  c10::SmallVector<std::pair<c10::intrusive_ptr<c10::StorageImpl>, c10::Storage>, 2> storages_;  // twin, device
  c10::SmallVector<c10::StorageImpl*, 4> cpu_storages_;
  c10::Device device_{c10::DeviceType::PrivateUse1, -1};
};

// A CPU tensor over the memory of `tensor`, which must be on a host-accessible device. The caller orders its accesses
// (HostScope, or a synchronized stream on an unguarded device).
at::Tensor host_alias(const at::Tensor& tensor);

// Installs the CPU allocator that serves HostScopes. Called once, when the library is initialised.
void install_host_scope_allocator();

}  // namespace mydev
