#include "runtime/stream/stream_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/stream/host_function_scope.h"
#include "runtime/stream/loading_stream.h"
#include "runtime/stream/recording_stream.h"
#include "runtime/stream/staging_stream.h"

namespace mydev {

namespace {

constexpr int64_t kStagingId = 2 * kPoolSize + 1;
constexpr int64_t kRecordingId = kStagingId + 1;
constexpr int64_t kLoadingId = kRecordingId + 1;
constexpr int64_t kFirstExternalId = kLoadingId + 1;

// The default stream, the pools', the staging, the recording and the loading stream by id, made at first use and never
// destroyed; then external ones.
struct DeviceStreams {
  std::array<std::atomic<Stream*>, kFirstExternalId> own{};
  std::atomic<uint32_t> next_low{0}, next_high{0};
  std::mutex mutex;  // guards what follows, and the making of own streams
  std::map<int64_t, std::unique_ptr<Stream>> external;
  std::vector<std::unique_ptr<Stream>> released;  // blocks of memory may still refer to them
  int64_t next_external = kFirstExternalId;
};

std::array<DeviceStreams, kMaxDevices>& all_streams() {
  static auto& instance = *new std::array<DeviceStreams, kMaxDevices>;
  return instance;
}

DeviceStreams& streams_of(int device) {
  return all_streams()[static_cast<size_t>(device)];
}

void wait_for_first_stream_at_exit() {
  [[maybe_unused]] static const bool arranged = (wait_for_streams_at_exit(), true);
}

Stream& own_stream(int index, int64_t id) {
  Device& device = mydev::device(index);
  DeviceStreams& streams = streams_of(index);
  std::atomic<Stream*>& slot = streams.own[static_cast<size_t>(id)];
  if (Stream* stream = slot.load(std::memory_order_acquire)) {
    return *stream;
  }
  const std::lock_guard lock(streams.mutex);
  if (Stream* stream = slot.load(std::memory_order_relaxed)) {
    return *stream;
  }
  const int priority = id > kPoolSize ? device.properties.stream_priority_high : device.properties.stream_priority_low;
  mydev_stream handle = nullptr;
  check_driver(device, device.driver->stream_create(index, priority, &handle), "creating a stream");
  wait_for_first_stream_at_exit();
  auto* stream = new Stream(device, handle, id, priority);
  slot.store(stream, std::memory_order_release);
  return *stream;
}

// The first error of the device's streams; the others are dropped.
void raise_first_stream_error(int device) {
  Stream* first = nullptr;
  for (Stream* stream : existing_streams(device)) {
    if (!stream->released()) {
      stream->collect_status();
    }
    if (!stream->failed()) {
      continue;
    }
    if (first == nullptr) {
      first = stream;
    } else {
      stream->drop_error();
    }
  }
  if (first != nullptr) {
    first->raise_error_if_any();
  }
}

}  // namespace

namespace detail {

Stream& look_up_current_stream(int device) {
  Stream& stream = default_stream(device);
  if (ThreadState* thread = register_thread()) {
    thread->current_streams[static_cast<size_t>(device)] = &stream;
  }
  return stream;
}

}  // namespace detail

Stream& default_stream(int device) {
  return own_stream(device, 0);
}

Stream& exchange_current_stream(Stream& stream) {
  stream.check_open();
  const int device = stream.device().index;
  Stream& previous = current_stream(device);
  if (detail::ThreadState* thread = detail::register_thread()) {
    thread->current_streams[static_cast<size_t>(device)] = &stream;
  }
  return previous;
}

Stream& stream_from_pool(int device, int priority) {
  mydev::device(device);
  const bool high = priority < 0;
  DeviceStreams& streams = streams_of(device);
  const uint32_t turn = (high ? streams.next_high : streams.next_low).fetch_add(1, std::memory_order_relaxed);
  return own_stream(device, 1 + (high ? kPoolSize : 0) + static_cast<int64_t>(turn % kPoolSize));
}

Stream& staging_stream(int device) {
  return own_stream(device, kStagingId);
}

Stream& recording_stream(int device) {
  return own_stream(device, kRecordingId);
}

Stream& loading_stream(int device) {
  return own_stream(device, kLoadingId);
}

std::unique_lock<std::mutex> lock_loading(int device) {
  static auto& mutexes = *new std::array<std::mutex, kMaxDevices>;
  return std::unique_lock(mutexes[static_cast<size_t>(device)]);
}

std::unique_lock<std::mutex> lock_recording() {
  static std::mutex& mutex = *new std::mutex();
  return std::unique_lock(mutex);
}

Stream& stream_by_id(int device, int64_t id) {
  mydev::device(device);
  if (id >= 0 && id < kFirstExternalId) {
    return own_stream(device, id);
  }
  DeviceStreams& streams = streams_of(device);
  const std::lock_guard lock(streams.mutex);
  const auto found = streams.external.find(id);
  MYDEV_CHECK(found != streams.external.end(), MYDEV_INVALID_ARGUMENT, "no stream ", id, " on device ",
              device_text(device), ": the device's own streams are 0 to ", kFirstExternalId - 1,
              ", and no open external stream has this id");
  return *found->second;
}

Stream& stream_by_handle(int device, mydev_stream handle) {
  Stream& current = current_stream(device);
  if (current.handle() == handle) return current;
  const std::vector<Stream*> all = existing_streams(device);
  const auto found = std::ranges::find(all, handle, &Stream::handle);
  MYDEV_CHECK(found != all.end(), MYDEV_INVALID_ARGUMENT, "no stream of device ", device_text(device),
              " has the handle ", static_cast<const void*>(handle));
  return **found;
}

Stream& register_external_stream(int device, mydev_stream handle) {
  Device& owner = mydev::device(device);
  MYDEV_CHECK(handle != nullptr, MYDEV_INVALID_ARGUMENT, "the handle of an external stream must not be NULL");
  wait_for_first_stream_at_exit();
  DeviceStreams& streams = streams_of(device);
  const std::lock_guard lock(streams.mutex);
  const int64_t id = streams.next_external++;
  auto stream = std::make_unique<Stream>(owner, handle, id, owner.properties.stream_priority_low);
  return *(streams.external[id] = std::move(stream));
}

void release_external_stream(Stream& stream) {
  stream.check_open();
  MYDEV_CHECK(stream.id() >= kFirstExternalId, MYDEV_INVALID_ARGUMENT, "stream ", stream.id(),
              " is one of the device's own and is never released");
  const int device = stream.device().index;
  DeviceStreams& streams = streams_of(device);
  const std::lock_guard lock(streams.mutex);
  auto node = streams.external.extract(stream.id());
  MYDEV_ASSERT(!node.empty());
  stream.released_ = true;
  stream.needs_care_.store(true, std::memory_order_relaxed);
  streams.released.push_back(std::move(node.mapped()));
  if (detail::thread_state->current_streams[static_cast<size_t>(device)] == &stream) {
    detail::thread_state->current_streams[static_cast<size_t>(device)] = nullptr;
  }
}

std::vector<Stream*> existing_streams(int device) {
  DeviceStreams& streams = streams_of(device);
  std::vector<Stream*> result;
  for (const auto& slot : streams.own) {
    if (Stream* stream = slot.load(std::memory_order_acquire)) {
      result.push_back(stream);
    }
  }
  const std::lock_guard lock(streams.mutex);
  for (const auto& [id, stream] : streams.external) {
    result.push_back(stream.get());
  }
  return result;
}

void wait_for_streams() noexcept {
  if (!driver_loaded()) {
    return;
  }
  for (int index = 0; index < device_count(); ++index) {
    for (const Stream* stream : existing_streams(index)) {
      if (!stream->released()) {
        stream->device().driver->stream_synchronize(stream->handle());
      }
    }
  }
}

void wait_for_streams_at_exit() {
  if (driver_loaded()) {
    std::atexit(wait_for_streams);
  }
}

void synchronize_device(Device& device) {
  HostFunctionScope::check_waits("waiting for the device");
  for (const Stream* stream : existing_streams(device.index)) {
    if (stream->capture() != nullptr) raise_not_captured(*stream, "waiting for the device");
  }
  if (device.driver->device_synchronize != nullptr) {
    check_driver(device, device.driver->device_synchronize(device.index), "synchronizing the device");
  } else {
    for (const Stream* stream : existing_streams(device.index)) {
      if (!stream->released()) {
        check_driver(device, device.driver->stream_synchronize(stream->handle()), "synchronizing a stream");
      }
    }
  }
  raise_first_stream_error(device.index);
}

}  // namespace mydev
