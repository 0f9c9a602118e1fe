#include "aten/host/host_copies.h"

#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

#include "aten/core/sync_debug.h"
#include "aten/host/alias.h"
#include "aten/memory/pinned_memory.h"
#include "aten/memory/storage.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

constexpr size_t kLargestPinned = size_t{32} << 20;
// A view that has more gaps than this is copied element by element.
constexpr uint64_t kDenseEnough = 4;  // bytes of its span for each byte of an element

// The bytes of the storage that the tensor's elements lie in, from and to; the same if there are none.
std::pair<uint64_t, uint64_t> span_of(const at::Tensor& tensor) {
  const auto size = static_cast<uint64_t>(tensor.itemsize());
  const auto begin = static_cast<uint64_t>(tensor.storage_offset()) * size;
  if (tensor.numel() == 0) return {begin, begin};
  uint64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += static_cast<uint64_t>((tensor.size(d) - 1) * tensor.stride(d));
  return {begin, begin + (last + 1) * size};
}

// The same elements, each once: expanded dimensions have size 1.
at::Tensor unexpanded(const at::Tensor& tensor) {
  c10::DimVector sizes(tensor.sizes());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (tensor.stride(static_cast<int64_t>(d)) == 0 && sizes[d] > 1) sizes[d] = 1;
  }
  return tensor.as_strided(sizes, tensor.strides());
}

c10::Storage host_storage(size_t bytes, bool pinned) {
  c10::Allocator* allocator = pinned ? pinned_memory_allocator() : c10::GetCPUAllocator();
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            allocator->allocate(bytes), allocator, /*resizable=*/true));
}

}  // namespace

HostCopies::Storage& HostCopies::storage_of(const at::Tensor& tensor) {
  const c10::StorageImpl* device = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  for (Storage& storage : storages_) {
    if (storage.device == device) return storage;
  }
  const bool pinned = device->nbytes() <= kLargestPinned;
  storages_.push_back({device, host_storage(device->nbytes(), pinned), pinned, {}});
  return storages_.back();
}

at::Tensor HostCopies::add(const at::Tensor& tensor) {
  if (C10_UNLIKELY(tensor._is_zerotensor())) return at::zeros(tensor.sizes(), tensor.options().device(c10::kCPU));
  Storage& storage = storage_of(tensor);
  at::Tensor host = tensor_over(storage.host, c10::DispatchKey::CPU, *tensor.unsafeGetTensorImpl());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
  copy(storage, tensor, host);
  return host;
}

void HostCopies::copy(Storage& storage, const at::Tensor& tensor, const at::Tensor& host) {
  const auto [begin, end] = span_of(tensor);
  const auto has_it = [begin = begin, end = end](const auto& piece) {
    return piece.first <= begin && end <= piece.second;
  };
  if (begin == end || std::any_of(storage.copied.begin(), storage.copied.end(), has_it)) return;
  const bool sparse = end - begin > kDenseEnough * tensor.nbytes();
  if (sparse && at::has_internal_overlap(tensor) == at::MemOverlap::No) {
    host.copy_(tensor);
    bytes_ += tensor.nbytes();
    return;
  }
  Stream& stream = current_stream(tensor.get_device());
  copy_bytes(stream, static_cast<char*>(storage.host.mutable_data()) + begin,
             static_cast<const char*>(storage.device->data()) + begin, end - begin, MYDEV_COPY_DEVICE_TO_HOST);
  storage.copied.emplace_back(begin, end);
  pending_ = stream.device().index;
  bytes_ += end - begin;
}

void HostCopies::wait() {
  if (pending_ < 0) return;
  about_to_wait("an operator that runs on copies");
  current_stream(pending_).synchronize();
  pending_ = -1;
}

void copy_back(const at::Tensor& origin, const at::Tensor& host) {
  if (host.sizes() != origin.sizes() || host.strides() != origin.strides()) {
    if (at::has_internal_overlap(host) == at::MemOverlap::Yes) {
      origin.resize_(host.sizes());
    } else {  // gaps between the elements included, as kernels that narrow a result leave them
      const auto [begin, end] = span_of(host);
      origin.resize_({static_cast<int64_t>((end - begin) / host.itemsize())});
      origin.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides());
    }
  }
  unexpanded(origin).copy_(unexpanded(host));
}

}  // namespace mydev
