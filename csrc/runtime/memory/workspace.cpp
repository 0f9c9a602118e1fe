#include "runtime/memory/workspace.h"

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/driver/host_services.h"
#include "runtime/memory/no_reclaim.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

constinit thread_local bool launching = false;

// Returns the stream with the handle; nullptr if no stream has it (any more).
Stream* stream_with(int device, mydev_stream handle) {
  for (Stream* stream : existing_streams(device)) {
    if (stream->handle() == handle) return stream;
  }
  return nullptr;
}

// A pool is identified by its Stream: an alias of the stream that runs, which no one else uses.
Stream& running_pool(const Stream& running) {
  struct Pools {
    std::mutex mutex;
    std::map<const Stream*, std::unique_ptr<Stream>> aliases;
  };
  static Pools& pools = *new Pools;
  const std::lock_guard lock(pools.mutex);
  std::unique_ptr<Stream>& alias = pools.aliases[&running];
  if (alias == nullptr) alias = Stream::alias_of(running);
  return *alias;
}

Block* allocate_running(const Stream& stream, size_t bytes) {
  std::optional<NoReclaim> scope;
  if (!NoReclaim::active()) scope.emplace();
  return allocate(running_pool(stream), bytes);
}

// --- workspaces, by their address ------------------------------------------------------------------------------------

struct Workspaces {
  std::mutex mutex;
  std::map<std::pair<int, void*>, Block*> blocks;  // two devices may use one address
};

// Never destroyed: drivers and libraries give memory back until the process is gone.
Workspaces& workspaces() {
  static Workspaces& instance = *new Workspaces;
  return instance;
}

std::string& last_message() {
  thread_local std::string message;
  return message;
}

template <typename Body>
mydev_code guarded(const Body& body) noexcept {
  const RaiserBypass bypass;
  try {
    body();
    return MYDEV_OK;
  } catch (const Error& error) {
    last_message() = error.what();
    return error.code();
  } catch (const std::bad_alloc&) {
    return MYDEV_RESOURCE_EXHAUSTED;
  } catch (const std::exception& error) {
    last_message() = error.what();
    return MYDEV_INTERNAL;
  }
}

Stream& stream_of(int device, mydev_stream handle) {
  mydev::device(device);
  Stream* stream = stream_with(device, handle);
  MYDEV_CHECK(stream != nullptr, MYDEV_INVALID_ARGUMENT, "no stream of device ", device, " has the handle ",
              static_cast<const void*>(handle), "; give that of a frame of this device");
  return *stream;
}

}  // namespace

Block* allocate_while_running(int device, mydev_stream stream, size_t bytes) {
  const Stream* running = stream_with(device, stream);
  return allocate_running(running != nullptr ? *running : default_stream(device), bytes);
}

LaunchScope::LaunchScope() noexcept : outer_(launching) {
  launching = true;
}

LaunchScope::~LaunchScope() {
  launching = outer_;
}

namespace detail {

mydev_code allocate_workspace(int32_t device, mydev_stream handle, uint64_t bytes, void** out_data) {
  return guarded([&] {
    Stream& stream = stream_of(device, handle);
    MYDEV_CHECK(bytes > 0, MYDEV_INVALID_ARGUMENT, "device_alloc takes more than 0 bytes");
    const bool in_order = launching || !stream.asynchronous();
    Block* block = in_order ? allocate(stream, bytes) : allocate_running(stream, bytes);
    Workspaces& all = workspaces();
    const std::lock_guard lock(all.mutex);
    all.blocks[{device, block->data}] = block;
    *out_data = block->data;
  });
}

mydev_code free_workspace(int32_t device, mydev_stream handle, void* data) {
  return guarded([&] {
    Stream& stream = stream_of(device, handle);
    Block* block = nullptr;
    {
      Workspaces& all = workspaces();
      const std::lock_guard lock(all.mutex);
      const auto node = all.blocks.extract({device, data});
      MYDEV_CHECK(!node.empty(), MYDEV_INVALID_ARGUMENT, "device_free: ", data, " is not from device_alloc of device ",
                  device);
      block = node.mapped();
    }
    // The block's pool does not hand out blocks in the order in which they are given back: the stream must have passed.
    const bool other_stream = block->stream->handle() != handle;
    const bool from_running = launching && block->stream != &stream;
    if (other_stream || from_running) record_stream(*block, stream);
    release(*block);
  });
}

const char* workspace_error() {
  return last_message().c_str();
}

}  // namespace detail
}  // namespace mydev
