#include "aten/memory/copy_on_write.h"

#include <c10/core/impl/COW.h>
#include <c10/core/impl/COWDeleter.h>

#include <utility>
#include <variant>

#include "aten/memory/device_allocator.h"
#include "aten/memory/storage.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

using Context = c10::impl::cow::COWDeleterContext;

c10::DataPtr lazy_copy_data_ptr(void* data, Context& context, c10::Device device) {
  return {data, &context, &c10::impl::cow::cow_deleter, device};
}

// Gives a storage memory of its own. PyTorch's materializer would copy on the current device, whichever that is, and
// takes the memory's address for the allocator's context.
void materialize(c10::StorageImpl* storage) {
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  auto* context = data.cast_context<Context>(&c10::impl::cow::cow_deleter);
  Stream& stream = current_stream(data.device().index());
  if (stream.asynchronous()) synchronize_device(stream.device());
  // All that may fail for the caller's fault comes before the reference is given up.
  c10::DataPtr own = allocate_device_memory(stream, storage->nbytes());
  auto reference = context->decrement_refcount();
  const void* source = data.get();
  if (auto* last = std::get_if<Context::LastReference>(&reference)) {
    const c10::DeleterFnPtr deleter = last->get_deleter();
    own = c10::DataPtr(data.get(), last->release(), deleter, data.device());
  }
  data.release_context();
  data = std::move(own);
  storage->clear_materializer();
  if (data.get() == source) return;
  copy_bytes(stream, data.get(), source, storage->nbytes(), MYDEV_COPY_DEVICE_TO_DEVICE);
  if (stream.asynchronous()) stream.synchronize();  // `reference` holds the source until here
}

}  // namespace

c10::intrusive_ptr<c10::StorageImpl> lazy_clone_storage(c10::StorageImpl& storage) {
  c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  const c10::Device device = data.device();
  if (is_device_memory(data)) {
    void* address = data.get();
    data = lazy_copy_data_ptr(address, *new Context(data.move_context()), device);
    storage.set_materializer(&materialize);
  }
  auto* context = data.cast_context<Context>(&c10::impl::cow::cow_deleter);
  c10::DataPtr copy;
  if (context != nullptr) {
    context->increment_refcount();
    copy = lazy_copy_data_ptr(data.get(), *context, device);
  } else {
    Stream& stream = current_stream(device.index());
    copy = allocate_device_memory(stream, storage.nbytes());
    copy_bytes(stream, copy.get(), data.get(), storage.nbytes(), MYDEV_COPY_DEVICE_TO_DEVICE);
  }
  auto result = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
                                                      std::move(copy), device_allocator(), /*resizable=*/true);
  if (context != nullptr) result->set_materializer(&materialize);
  return result;
}

}  // namespace mydev
