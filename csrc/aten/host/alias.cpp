#include "aten/host/alias.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <cstring>

#include "aten/core/device_type.h"
#include "aten/core/sync_debug.h"
#include "aten/memory/block_alias.h"
#include "aten/memory/device_allocator.h"
#include "aten/memory/storage.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

MYDEV_STATIC_TLS constinit thread_local int host_scope_depth = 0;

// --- memory of alias storages ----------------------------------------------------------------------------------------

// Deleter of CPU DataPtrs whose context is the data pointer, as c10::Allocator::raw_allocate demands.
void release_by_pointer(void* data) {
  if (data == nullptr) return;
  Block* block = find_block(data);
  TORCH_INTERNAL_ASSERT(block != nullptr, "no block at ", data);
  release(*block);
}

// Deleter of an alias storage's DataPtr, whose context is the block.
void release_by_block(void* context) {
  release(*static_cast<Block*>(context));
}

// Deleter of an alias storage over foreign memory, whose context is the device storage.
using StorageOwner = c10::intrusive_ptr<c10::StorageImpl>;
void release_owner(void* context) {
  delete static_cast<StorageOwner*>(context);
}

c10::DataPtr allocate_host_view(size_t bytes) {
  Block* block = allocate(current_stream(current_device()), bytes);
  if (block->data == nullptr) {
    release(*block);
    return {nullptr, c10::Device(c10::kCPU)};
  }
  return {block->data, block->data, &release_by_pointer, c10::Device(c10::kCPU)};
}

// The allocator of alias storages: what a CPU kernel gets when it resizes one.
class AliasAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return allocate_host_view(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release_by_pointer; }
  void copy_data(void* dst, const void* src, size_t bytes) const override { default_copy_data(dst, src, bytes); }
};

// The process's CPU allocator: the previous one, except inside a HostScope.
class HostScopeAllocator final : public c10::Allocator {
 public:
  explicit HostScopeAllocator(c10::Allocator* ordinary) { ordinary_ = ordinary; }
  c10::DataPtr allocate(size_t bytes) override {
    return C10_UNLIKELY(host_scope_depth > 0) ? allocate_host_view(bytes) : ordinary_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_either; }
  void copy_data(void* dst, const void* src, size_t bytes) const override { default_copy_data(dst, src, bytes); }

 private:
  // raw_deallocate passes a bare pointer: its address tells whose it is.
  static void release_either(void* data) {
    if (device_of_pointer(data) >= 0) {
      release_by_pointer(data);
    } else {
      ordinary_->raw_deleter()(data);
    }
  }
  inline static c10::Allocator* ordinary_ = nullptr;
};

AliasAllocator alias_allocator;

c10::intrusive_ptr<c10::StorageImpl> make_alias_storage(c10::DataPtr data, size_t bytes) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                               &alias_allocator, /*resizable=*/true);
}

// An alias storage that keeps the device storage alive.
c10::intrusive_ptr<c10::StorageImpl> make_owning_alias(c10::StorageImpl& storage, const void* data) {
  auto* owner = new StorageOwner(StorageOwner::reclaim_copy(&storage));
  return make_alias_storage({const_cast<void*>(data), owner, &release_owner, c10::Device(c10::kCPU)}, storage.nbytes());
}

// Materializer of an alias storage over copy-on-write memory: the device storage's, whose memory the alias then has.
void materialize_owner(c10::StorageImpl* alias) {
  c10::DataPtr& data = alias->_mutable_data_ptr_no_checks();
  c10::StorageImpl& owner = **static_cast<StorageOwner*>(data.get_context());
  data = c10::DataPtr(owner.mutable_data(), data.move_context().release(), &release_owner, c10::Device(c10::kCPU));
}

// The current stream of a device, whose work is done.
Stream& finished_stream(int device_index, const char* name) {
  Stream& stream = current_stream(device_index);
  about_to_wait(name);
  if (stream.asynchronous()) stream.synchronize();
  return stream;
}

// The block behind CPU memory that was allocated inside a HostScope; nullptr for other memory.
Block* block_of_host(const c10::StorageImpl& host) {
  const c10::DataPtr& data = host.data_ptr();
  if (data.get_deleter() == &release_by_pointer && data.get() != nullptr) return find_block(data.get());
  if (data.get_deleter() == &release_by_block) return static_cast<Block*>(data.get_context());
  return nullptr;
}

}  // namespace

c10::intrusive_ptr<c10::StorageImpl> alias_storage(c10::StorageImpl& storage) {
  Block* block = block_of(storage);
  if (C10_UNLIKELY(block == nullptr || block->data == nullptr)) {
    // Foreign, no or copy-on-write memory: an alias storage for this call.
    auto alias = make_owning_alias(storage, storage.data());
    if (storage.has_materializer()) alias->set_materializer(&materialize_owner);
    return alias;
  }
  c10::StorageImpl* alias = cached_alias(*block);
  if (C10_UNLIKELY(alias == nullptr)) {
    retain(*block);
    auto fresh = make_alias_storage({block->data, block, &release_by_block, c10::Device(c10::kCPU)}, storage.nbytes());
    alias = cache_alias(*block, *fresh);
    if (alias == nullptr) return fresh;
  }
  if (C10_UNLIKELY(alias->nbytes() != storage.nbytes())) alias->set_nbytes(storage.nbytes());
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(alias);
}

c10::DataPtr take_host_memory(c10::StorageImpl& host, c10::Device device) {
  Block* block = block_of_host(host);
  if (host.data() == nullptr) return allocate_device_memory(device.index(), 0);  // no elements, or never to be read
  if (block == nullptr) {
    c10::DataPtr data = allocate_device_memory(device.index(), host.nbytes());
    std::memcpy(data.get(), host.data(), host.nbytes());
    return data;
  }
  if (cache_alias(*block, host) == nullptr) host.set_allocator(&alias_allocator);
  retain(*block);
  return device_data_ptr(*block, device.index());
}

c10::Storage take_host_storage(c10::StorageImpl& host, c10::Device device) {
  return device_storage(take_host_memory(host, device), host.nbytes());
}

void become_device_tensor(const at::Tensor& tensor, c10::Storage storage, c10::Device device) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->_change_backend_component_keys(device);
}

bool is_scope_memory(const c10::StorageImpl& host) {
  return block_of_host(host) != nullptr || host.data_ptr().get_deleter() == &release_owner;
}

at::Tensor device_alias(const at::Tensor& host) {
  if (!host.defined() || !host.is_cpu() || !host.has_storage()) return {};
  const c10::TensorImpl* impl = host.unsafeGetTensorImpl();
  const c10::StorageImpl& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  if (Block* block = block_of_host(storage)) {
    retain(*block);
    return tensor_over(device_storage(device_data_ptr(*block, block->stream->device().index), storage.nbytes()),
                       kDispatchKey, *impl);
  }
  if (storage.data_ptr().get_deleter() == &release_owner) {
    return tensor_over(c10::Storage(*static_cast<StorageOwner*>(storage.data_ptr().get_context())), kDispatchKey,
                       *impl);
  }
  return {};
}

bool inside_host_scope() noexcept {
  return host_scope_depth > 0;
}

void finish_device_work() {
  finished_stream(current_device(), "an operator that runs on the host");
}

at::Tensor alias_over(c10::intrusive_ptr<c10::StorageImpl> storage, const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  at::Tensor alias = tensor_over(c10::Storage(std::move(storage)), c10::DispatchKey::CPU, impl);
  if (C10_UNLIKELY(impl.is_wrapped_number())) alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  return alias;
}

// --- HostScope -------------------------------------------------------------------------------------------------------

HostScope::HostScope(int device_index, const char* name)
    : work_(name, finished_stream(device_index, name)),
      access_(device(device_index)),
      previous_device_(exchange_current_device(device_index)),
      below_autograd_(c10::autograd_dispatch_keyset_with_ADInplaceOrView) {
  ++host_scope_depth;
}

HostScope::~HostScope() {
  --host_scope_depth;
  exchange_current_device(previous_device_);
}

at::Tensor host_alias(const at::Tensor& tensor) {
  TORCH_CHECK(on_device(tensor), "host_alias: expected a tensor on ", kDeviceType, ", got one on ", tensor.device());
  TORCH_CHECK(device(tensor.device().index()).host_accessible(), "host_alias: the memory of ", tensor.device(),
              " is not accessible from the host; copy the tensor with .cpu()");
  return alias_over(alias_storage(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()), tensor);
}

at::Tensor alias_of_result(const at::Tensor& result) {
  return on_device(result) ? host_alias(result) : result;
}

void install_host_scope_allocator() {
  static HostScopeAllocator allocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

}  // namespace mydev
