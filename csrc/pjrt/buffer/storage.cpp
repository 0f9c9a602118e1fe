#include "pjrt/buffer/storage.h"

#include <utility>

#include "runtime/memory/host_memory.h"

namespace mydev::pjrt {

SharedStorage Storage::allocate(PJRT_Memory& memory, uint64_t bytes) {
  if (!memory.on_host()) return std::make_shared<Storage>(*mydev::allocate(memory.device->stream, bytes), bytes);
  std::shared_ptr<void> data =
      memory.kind == MemoryKind::kPinnedHost ? pinned_memory(memory.device->device, bytes) : host_memory(bytes);
  void* address = data.get();
  return of_others(address, bytes, [data = std::move(data)] {});
}

SharedStorage Storage::of_others(void* data, uint64_t bytes, std::function<void()> release) {
  return std::make_shared<Storage>(data, bytes, std::move(release));
}

void Storage::record_use(Stream& stream) {
  if (block_ != nullptr) record_stream(*block_, stream);
}

Storage::~Storage() {
  if (block_ != nullptr) {
    release(*block_);
  } else if (release_) {
    release_();
  }
}

}  // namespace mydev::pjrt
