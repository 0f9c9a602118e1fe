#include "aten/memory/shared_storage.h"

#include <c10/core/StorageImpl.h>

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "aten/core/device_type.h"
#include "aten/memory/storage.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

// The context of a shared storage's DataPtr.
struct SharedMemory {
  c10::Storage host;
  int device;
};

// Memory that no tensor holds any more, but work of the device may.
struct DeferredFree {
  std::unique_ptr<SharedMemory> memory;
  std::vector<std::unique_ptr<Event>> passed;  // one for each stream that was busy
};

std::mutex deferred_mutex;
std::vector<DeferredFree>& deferred_frees() {
  static auto& instance = *new std::vector<DeferredFree>;
  return instance;
}

// Whether the stream has work that may use the memory of a tensor just dropped. Sticky errors stay where they are.
bool busy(const Stream& stream) {
  if (!stream.asynchronous()) return false;
  const Device& device = stream.device();
  int32_t done = 0;
  check_driver(device, device.driver->stream_query(stream.handle(), &done), "querying a stream");
  return done == 0;
}

void release_or_defer(std::unique_ptr<SharedMemory>& memory) {
  collect_shared_storages();
  DeferredFree deferred;
  for (Stream* stream : existing_streams(memory->device)) {
    if (!busy(*stream)) continue;
    auto event = std::make_unique<Event>(memory->device, /*timing=*/false);
    event->record(*stream);
    deferred.passed.push_back(std::move(event));
  }
  if (deferred.passed.empty()) return;
  deferred.memory = std::move(memory);
  const std::lock_guard lock(deferred_mutex);
  deferred_frees().push_back(std::move(deferred));
}

// Deleter of shared storages. Called on any thread, one of the driver's own included, so that it must not wait.
void release_shared_memory(void* context) {
  std::unique_ptr<SharedMemory> memory(static_cast<SharedMemory*>(context));
  if (in_bad_fork()) return;  // the device's work is the parent's
  try {
    release_or_defer(memory);
  } catch (const std::exception&) {
    memory.release();  // NOLINT(bugprone-unused-return-value): a device that fails may still be using it
  }
}

c10::DataPtr shared_data_ptr(c10::Storage host, int device) {
  void* data = host.mutable_data();
  return {data, new SharedMemory{std::move(host), device}, &release_shared_memory, torch_device(device)};
}

void check_shareable(int index) {
  TORCH_CHECK((device(index).properties.capabilities & MYDEV_CAPABILITY_UNIFIED_MEMORY) != 0, "the memory of ",
              torch_device(index), " cannot be shared between processes: driver '", device(index).driver->name,
              "' does not work on memory of the host; send a copy, made with .cpu()");
}

}  // namespace

void move_to_shared_memory(const c10::Storage& storage, c10::Storage host) {
  c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
  TORCH_CHECK(storage.device_type() == kDeviceType, "expected a storage on ", kDeviceType, ", got one on ",
              storage.device());
  if (shared_host_storage(storage)) return;
  const int index = storage.device().index();
  check_shareable(index);
  TORCH_CHECK(host.nbytes() == storage.nbytes(), "the shared memory has ", host.nbytes(), " bytes, the storage ",
              storage.nbytes());
  collect_shared_storages();
  synchronize_device(device(index));
  copy_to_host(host.mutable_data(), storage.data(), storage.nbytes(), current_stream(index));
  impl.clear_materializer();
  impl.set_data_ptr_noswap(shared_data_ptr(std::move(host), index));
  impl.set_resizable(false);
  impl.set_allocator(nullptr);
}

c10::Storage storage_over_shared_memory(c10::Storage host, int device_index) {
  check_shareable(device_index);
  collect_shared_storages();
  const size_t bytes = host.nbytes();
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            shared_data_ptr(std::move(host), device_index),
                                                            /*allocator=*/nullptr, /*resizable=*/false));
}

c10::Storage shared_host_storage(const c10::Storage& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() != &release_shared_memory) return {};
  return static_cast<SharedMemory*>(data.get_context())->host;
}

void collect_shared_storages() {
  std::vector<DeferredFree> finished;  // freed after the lock: that may take the interpreter's
  const std::lock_guard lock(deferred_mutex);
  std::erase_if(deferred_frees(), [&finished](DeferredFree& deferred) {
    for (const auto& event : deferred.passed) {
      if (!event->query()) return false;
    }
    finished.push_back(std::move(deferred));
    return true;
  });
}

}  // namespace mydev
