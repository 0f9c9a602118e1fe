// Host aliases of device tensors: how a CPU kernel works on the very memory of a tensor on a host-accessible device.
//
// Policy. A device storage D has at most one alias storage H: a CPU StorageImpl over the same memory, made at first
// need, cached in the allocator's Block (memory/block_alias.h) and dropped with D. H holds a reference to the block,
// not to D, so an alias may outlive the device tensor and there is no cycle. A CPU tensor cannot share D itself:
// TensorImpl takes its device from its storage, so that views made inside a CPU kernel would claim to be on the device.
//
// While a HostScope is open on a thread, CPU kernels there allocate memory from the device's allocator. So device
// tensors take ownership of their results without a copy. Tensors outside such a scope are untouched. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "runtime/base/api.h"
#include "runtime/command/host_work.h"
#include "runtime/driver/device.h"

namespace mydev {

// While open on a thread: host kernels may read and write the device's memory, CPU allocations of this thread come from
// its allocator, dispatch is below autograd, and earlier work of the current stream is finished.
class MYDEV_API HostScope {
 public:
  // `name`: the name of the work that hooks are given (host_work.h); it lives as long as the process.
  HostScope(int device_index, const char* name);
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  HostWork work_;
  HostAccess access_;
  int previous_device_;
  c10::impl::ExcludeDispatchKeyGuard below_autograd_;
};

// Whether a HostScope is open on this thread.
MYDEV_API bool inside_host_scope() noexcept;

// Waits for the work of a device op inside a HostScope, since host code goes on with the results.
MYDEV_API void finish_device_work();

// --- from the device to the host -------------------------------------------------------------------------------------

// The CPU StorageImpl over a device storage's memory: cached in the block, or made for this call where the memory is
// not the allocator's.
MYDEV_API c10::intrusive_ptr<c10::StorageImpl> alias_storage(c10::StorageImpl& storage);

// A CPU tensor like `tensor` (sizes, strides, offset, conj and neg bits, wrapped-number mark) over its alias storage.
MYDEV_API at::Tensor alias_over(c10::intrusive_ptr<c10::StorageImpl> storage, const at::Tensor& tensor);

// A CPU tensor over the memory of `tensor`, which must be on a host-accessible device. The caller orders its accesses
// (HostScope, or a synchronized stream on an unguarded device).
at::Tensor host_alias(const at::Tensor& tensor);

// Returns the tensor that host code is given for a result of a device op: its alias, or the result itself if it is
// elsewhere.
MYDEV_API at::Tensor alias_of_result(const at::Tensor& result);

// --- from the host to the device -------------------------------------------------------------------------------------

// A device tensor over the memory of a CPU tensor whose storage is an alias or was allocated inside a HostScope;
// undefined for any other tensor.
MYDEV_API at::Tensor device_alias(const at::Tensor& host);

// Whether the memory of a CPU storage is the device's: allocated inside a HostScope, or an alias storage's.
MYDEV_API bool is_scope_memory(const c10::StorageImpl& host);

// Returns device memory that takes ownership of the data that a CPU kernel left in `host`: the same memory if it is the
// allocator's, else a copy. `host` becomes the cached alias storage. Inside a HostScope.
c10::DataPtr take_host_memory(c10::StorageImpl& host, c10::Device device);

// A device storage over that memory (take_host_memory).
c10::Storage take_host_storage(c10::StorageImpl& host, c10::Device device);

// Turns a CPU tensor into one of the device, in place, over `storage`. Nobody else may hold it.
MYDEV_API void become_device_tensor(const at::Tensor& tensor, c10::Storage storage, c10::Device device);

// Installs the CPU allocator that serves HostScopes. Called once, when the library is initialised.
void install_host_scope_allocator();

}  // namespace mydev
