#include "runtime/stream.h"

#include <algorithm>
#include <array>
#include <map>

#include "runtime/device_name.h"
#include "runtime/status.h"

namespace mydev {

namespace {

constexpr int64_t kFirstExternalId = 2 * kPoolSize + 1;

// Streams 0 .. 2 * kPoolSize by id, made at first use and never destroyed; then external ones.
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
  auto* stream = new Stream(device, handle, id, priority);
  slot.store(stream, std::memory_order_release);
  return *stream;
}

}  // namespace

// --- Stream ----------------------------------------------------------------------------------------------------------

Stream::Stream(Device& device, mydev_stream handle, int64_t id, int priority) noexcept
    : device_(&device),
      handle_(handle),
      id_(id),
      priority_(priority),
      asynchronous_(device.asynchronous()),
      needs_care_(device.asynchronous()) {}

std::unique_ptr<Stream> Stream::stand_in(const Stream& other) {
  auto stream = std::make_unique<Stream>(other.device(), other.handle(), other.id(), other.priority());
  stream->stands_for_ = &other;
  return stream;
}

void Stream::check_open() const {
  MYDEV_CHECK(!released_, MYDEV_FAILED_PRECONDITION, "stream ", id_, " of device " MYDEV_DEVICE_NAME ":",
              device_->index, " is closed: it was an external stream, and its owner has released it");
}

bool Stream::query() {
  check_open();
  int32_t done = 0;
  check_driver(*device_, device_->driver->stream_query(handle_, &done), "querying a stream");
  raise_error_if_any();
  return done != 0;
}

void Stream::synchronize() {
  check_open();
  check_driver(*device_, device_->driver->stream_synchronize(handle_), "synchronizing a stream");
  raise_error_if_any();
}

void Stream::wait(const Event& event) {
  check_open();
  if (event.recorded()) {
    check_driver(*device_, device_->driver->stream_wait_event(handle_, event.handle()), "waiting for an event");
  }
}

void Stream::set_error(mydev_code code, std::string message, ErrorOwner owner) {
  const std::lock_guard lock(mutex_);
  if (code_ == MYDEV_OK) {
    code_ = code;
    message_ = std::move(message);
    owner_ = owner;
    failed_.store(true, std::memory_order_release);
  }
}

void Stream::raise_error_if_any() {
  if (!failed_.load(std::memory_order_acquire)) {
    return;
  }
  mydev_code code = MYDEV_OK;
  std::string message;
  ErrorOwner owner = ErrorOwner::kRuntime;
  {
    const std::lock_guard lock(mutex_);
    std::swap(code, code_);
    std::swap(message, message_);
    owner = owner_;
    failed_.store(false, std::memory_order_relaxed);
  }
  if (code != MYDEV_OK) {  // else another thread has raised it meanwhile
    raise(code, message, owner);
  }
}

void Stream::drop_error() noexcept {
  const std::lock_guard lock(mutex_);
  code_ = MYDEV_OK;
  message_.clear();
  failed_.store(false, std::memory_order_relaxed);
}

// --- finding streams -------------------------------------------------------------------------------------------------

namespace detail {

Stream& look_up_current_stream(int device) {
  Stream& stream = default_stream(device);
  if (ThreadState* thread = register_thread()) {
    thread->current_streams[static_cast<size_t>(device)] = &stream;
  }
  return stream;
}

void forget_streams() noexcept {
  if (thread_state->registered) {
    thread_state->current_streams.fill(nullptr);
  }
}

void raise_first_stream_error(int device) {
  Stream* first = nullptr;
  for (Stream* stream : existing_streams(device)) {
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

Stream& stream_by_id(int device, int64_t id) {
  mydev::device(device);
  if (id >= 0 && id < kFirstExternalId) {
    return own_stream(device, id);
  }
  DeviceStreams& streams = streams_of(device);
  const std::lock_guard lock(streams.mutex);
  const auto found = streams.external.find(id);
  MYDEV_CHECK(found != streams.external.end(), MYDEV_INVALID_ARGUMENT, "no stream ", id,
              " on device " MYDEV_DEVICE_NAME ":", device, ": the device's own streams are 0 to ", kFirstExternalId - 1,
              ", and no open external stream has this id");
  return *found->second;
}

Stream& register_external_stream(int device, mydev_stream handle) {
  Device& owner = mydev::device(device);
  MYDEV_CHECK(handle != nullptr, MYDEV_INVALID_ARGUMENT, "the handle of an external stream must not be NULL");
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
  stream.needs_care_ = true;
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

// --- Event -----------------------------------------------------------------------------------------------------------

Event::Event(int device, bool timing) : device_(mydev::device(device).index), timing_(timing) {}

Event::~Event() {
  if (handle_ != nullptr) {
    detail::devices[device_].driver->event_destroy(handle_);
  }
}

void Event::record(Stream& stream) {
  stream.check_open();
  Device& device = stream.device();
  MYDEV_CHECK(device.index == device_, MYDEV_INVALID_ARGUMENT, "an event of device " MYDEV_DEVICE_NAME ":", device_,
              " cannot be recorded on a stream of device " MYDEV_DEVICE_NAME ":", device.index);
  if (handle_ == nullptr) {
    const uint32_t flags = timing_ ? uint32_t{MYDEV_EVENT_TIMING} : 0U;
    check_driver(device, device.driver->event_create(device_, flags, &handle_), "creating an event");
  }
  check_driver(device, device.driver->event_record(handle_, stream.handle()), "recording an event");
  stream_ = &stream;
}

bool Event::query() const {
  if (!recorded()) {
    return true;
  }
  Device& device = stream_->device();
  int32_t done = 0;
  check_driver(device, device.driver->event_query(handle_, &done), "querying an event");
  return done != 0;
}

void Event::synchronize() const {
  if (!recorded()) {
    return;
  }
  Device& device = stream_->device();
  check_driver(device, device.driver->event_synchronize(handle_), "synchronizing an event");
  stream_->raise_error_if_any();
}

void Event::wait_until_done() const noexcept {
  if (recorded()) {
    stream_->device().driver->event_synchronize(
        handle_);  // a failure is the stream's, and found by whoever waits for it
  }
}

double Event::elapsed(const Event& end) const {
  MYDEV_CHECK(timing_ && end.timing_, MYDEV_INVALID_ARGUMENT,
              "elapsed time needs two events made with enable_timing=True");
  MYDEV_CHECK(recorded() && end.recorded(), MYDEV_FAILED_PRECONDITION, "elapsed time needs two recorded events; the ",
              recorded() ? "end" : "start", " event has not been recorded");
  MYDEV_CHECK(device_ == end.device_, MYDEV_INVALID_ARGUMENT, "elapsed time needs two events of one device, not ",
              MYDEV_DEVICE_NAME ":", device_, " and " MYDEV_DEVICE_NAME ":", end.device_);
  MYDEV_CHECK(query() && end.query(), MYDEV_FAILED_PRECONDITION,
              "elapsed time needs finished events; call synchronize() on the end event first");
  Device& device = stream_->device();
  double milliseconds = 0;
  check_driver(device, device.driver->event_elapsed(handle_, end.handle_, &milliseconds), "timing two events");
  return milliseconds;
}

}  // namespace mydev
