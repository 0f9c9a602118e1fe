#include "aten/memory/storage.h"

#include <algorithm>

#include "aten/core/sync_debug.h"
#include "aten/memory/device_allocator.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

at::Tensor tensor_over(c10::Storage storage, c10::DispatchKey key, const c10::TensorImpl& like) {
  // A ZeroTensor stays one: its storage has no memory, and kernels ask.
  const auto keys = c10::DispatchKeySet(key) | (like.key_set() & c10::DispatchKeySet(c10::DispatchKey::ZeroTensor));
  auto tensor = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  tensor->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (C10_UNLIKELY(like.is_conj())) tensor->_set_conj(true);
  if (C10_UNLIKELY(like.is_neg())) tensor->_set_neg(true);
  return at::Tensor(std::move(tensor));
}

void copy_to_host(void* dst, const void* src, size_t bytes, Stream& stream) {
  about_to_wait("a copy to the host");
  copy_bytes(stream, dst, src, bytes, MYDEV_COPY_DEVICE_TO_HOST);
  if (stream.asynchronous()) stream.synchronize();
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "cannot resize a storage on ", storage.device(), " that is not resizable");
  const int index = storage.device().index();
  c10::DataPtr data = allocate_device_memory(index, bytes);
  copy_bytes(current_stream(index), data.get(), storage.data(), std::min(bytes, storage.nbytes()),
             MYDEV_COPY_DEVICE_TO_DEVICE);
  storage.clear_materializer();
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

}  // namespace mydev
