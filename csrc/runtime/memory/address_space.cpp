#include "runtime/memory/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/memory/size_classes.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

constexpr size_t kRegionBytes = size_t{16} << 30;

// Streams of spaces are never destroyed, since blocks refer to them; those of spaces that are gone serve the next.
struct Spaces {
  std::mutex mutex;
  std::map<const Stream*, AddressSpace*> by_stream;
  std::map<int, std::vector<Stream*>> idle_streams;  // by device
};
Spaces& spaces() {
  static Spaces& instance = *new Spaces;
  return instance;
}

Stream& take_stream(int device) {
  const Stream& like = default_stream(device);
  const std::lock_guard lock(spaces().mutex);
  std::vector<Stream*>& idle = spaces().idle_streams[device];
  if (idle.empty()) return *Stream::alias_of(like).release();
  Stream* stream = idle.back();
  idle.pop_back();
  return *stream;
}

}  // namespace

AddressSpace::AddressSpace(int device) : stream_(take_stream(device)) {
  stream_.set_keeps_memory(true);
  const std::lock_guard lock(spaces().mutex);
  spaces().by_stream[&stream_] = this;
}

AddressSpace::~AddressSpace() {
  {
    const std::lock_guard lock(spaces().mutex);
    spaces().by_stream.erase(&stream_);
    spaces().idle_streams[stream_.device().index].push_back(&stream_);
  }
  for (const Region& region : regions_) munmap(region.data, region.bytes);
}

Stream& AddressSpace::key_of(const Stream& stream) {
  MYDEV_CHECK(&stream == &stream_, MYDEV_FAILED_PRECONDITION, "stream ", stream.id(), " of device ",
              device_text(stream.device().index), " cannot join: a function is recorded on one stream");
  return stream_;
}

std::vector<Reservation> AddressSpace::reservations() const {
  std::vector<Reservation> sorted;
  {
    const std::lock_guard lock(mutex_);
    sorted = reservations_;
  }
  std::ranges::sort(sorted, std::less<>(), &Reservation::data);
  return sorted;
}

AddressSpace* AddressSpace::of(const Stream& stream) noexcept {
  const std::lock_guard lock(spaces().mutex);
  const auto found = spaces().by_stream.find(&stream);
  return found == spaces().by_stream.end() ? nullptr : found->second;
}

void* AddressSpace::reserve(size_t bytes) {
  const std::lock_guard lock(mutex_);
  MYDEV_CHECK(bytes <= SIZE_MAX / 4, MYDEV_RESOURCE_EXHAUSTED, "cannot allocate ", bytes,
              " bytes: no device has that much memory");
  const size_t taken = round_up(bytes, stream_.device().properties.alignment);
  if (regions_.empty() || regions_.back().bytes - regions_.back().used < taken) {
    const size_t size = std::max(kRegionBytes, round_up(taken, size_t{1} << 21));
    void* data = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MYDEV_CHECK(data != MAP_FAILED, MYDEV_RESOURCE_EXHAUSTED, "recording a function: the process has no room for ",
                size, " bytes of addresses");
    regions_.push_back({static_cast<std::byte*>(data), size, 0});
  }
  Region& region = regions_.back();
  void* data = region.data + region.used;
  region.used += taken;
  reservations_.push_back({data, bytes});
  return data;
}

}  // namespace mydev
