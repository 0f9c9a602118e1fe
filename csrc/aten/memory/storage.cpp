#include "aten/memory/storage.h"

#include <algorithm>

#include "aten/memory/device_allocator.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

void copy_to_host(void* dst, const void* src, size_t bytes, Stream& stream) {
  copy_bytes(stream, dst, src, bytes, MYDEV_COPY_DEVICE_TO_HOST);
  if (stream.asynchronous()) stream.synchronize();
}

void copy_to_device(void* dst, const void* src, size_t bytes, Stream& stream) {
  copy_bytes(stream, dst, src, bytes, MYDEV_COPY_HOST_TO_DEVICE);
}

void copy_on_device(void* dst, const void* src, size_t bytes, Stream& stream) {
  copy_bytes(stream, dst, src, bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "cannot resize a storage on ", storage.device(), " that is not resizable");
  const int index = storage.device().index();
  c10::DataPtr data = allocate_device_memory(index, bytes);
  copy_on_device(data.get(), storage.data(), std::min(bytes, storage.nbytes()), current_stream(index));
  storage.clear_materializer();
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

}  // namespace mydev
